-- name: create
CREATE TABLE IF NOT EXISTS nagaya_migrations (
    set_name   text        NOT NULL,
    number     integer     NOT NULL CHECK (number > 0),
    name       text        NOT NULL,
    checksum   text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (set_name, number)
)

-- name: delete
DELETE FROM nagaya_migrations WHERE set_name = $1 AND number = $2

-- name: insert
INSERT INTO nagaya_migrations (set_name, number, name, checksum) VALUES ($1, $2, $3, $4)

-- name: list
SELECT number, name, checksum FROM nagaya_migrations WHERE set_name = $1 ORDER BY number

-- name: lock
-- Waits for the turn to migrate; held until the transaction ends. The number is "nagaya" in ASCII.
SELECT pg_advisory_xact_lock(121364625324385)
