DELETE FROM nagaya_migrations WHERE set_name = $1 AND number = $2
