INSERT INTO nagaya_migrations (set_name, number, name, checksum) VALUES ($1, $2, $3, $4)
