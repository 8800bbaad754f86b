CREATE TABLE IF NOT EXISTS nagaya_migrations (
    set_name   text        NOT NULL,
    number     integer     NOT NULL CHECK (number > 0),
    name       text        NOT NULL,
    checksum   text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (set_name, number)
)
