SELECT number, name, checksum FROM nagaya_migrations WHERE set_name = $1 ORDER BY number
