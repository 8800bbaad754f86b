DELETE FROM schema_migrations WHERE number = ?1;
