SELECT name, checksum FROM schema_migrations WHERE number = ?1;
