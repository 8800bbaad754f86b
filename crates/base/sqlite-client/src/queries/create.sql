CREATE TABLE IF NOT EXISTS schema_migrations (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    -- SHA-256 of the text that was run, in hexadecimal digits.
    checksum TEXT NOT NULL
) STRICT;
