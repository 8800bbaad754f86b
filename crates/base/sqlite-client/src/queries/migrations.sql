-- name: count_objects
SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%';

-- name: create
CREATE TABLE IF NOT EXISTS schema_migrations (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    -- SHA-256 of the text that was run, in hexadecimal digits.
    checksum TEXT NOT NULL
) STRICT;

-- name: delete
DELETE FROM schema_migrations WHERE number = ?1;

-- name: find
SELECT name, checksum FROM schema_migrations WHERE number = ?1;

-- name: insert
INSERT INTO schema_migrations (number, name, checksum) VALUES (?1, ?2, ?3);
