-- Tags, their keys, and sums over both.
--
-- A tag has a number of its own, so that keys of new tags are appended instead of
-- spread over the whole table: with a tag's bytes as the key of both tables, a
-- trial of 600 thousand new tags in random order took 3.5 times as long.
--
-- Checks say BETWEEN, since a list after IN becomes a temporary table each time.
--
-- Generations, snapshots and sizes are unsigned; they stay below 2^63.
-- Times are Unix milliseconds.

CREATE TABLE tags (
    id INTEGER PRIMARY KEY,
    tag BLOB NOT NULL UNIQUE,
    -- The last one claimed.
    generation INTEGER NOT NULL CHECK (generation > 0),
    -- The version of the last commit; zeros before the first.
    saved_generation INTEGER NOT NULL DEFAULT 0 CHECK (saved_generation BETWEEN 0 AND generation),
    saved_snap INTEGER NOT NULL DEFAULT 0 CHECK (saved_snap >= 0),
    -- 0 need_synced, 1 synced, 2 cleaned.
    status INTEGER NOT NULL DEFAULT 0 CHECK (status BETWEEN 0 AND 2),
    read_at_ms INTEGER,
    written_at_ms INTEGER,
    saved_at_ms INTEGER,
    -- Keys with a value, and bytes of their names and payloads.
    keys INTEGER NOT NULL DEFAULT 0 CHECK (keys >= 0),
    bytes INTEGER NOT NULL DEFAULT 0 CHECK (bytes >= 0),
    tombstones INTEGER NOT NULL DEFAULT 0 CHECK (tombstones >= 0)
) STRICT;

-- The payload comes late, so that the columns before it are read without it.
CREATE TABLE keys (
    tag_id INTEGER NOT NULL,
    key BLOB NOT NULL,
    -- 0 string, 1 list, 2 set, 3 zset, 4 hash, 5 stream; nothing for a tombstone.
    kind INTEGER CHECK (kind BETWEEN 0 AND 5),
    expires_at_ms INTEGER,
    -- The version of the snapshot that wrote this row.
    generation INTEGER NOT NULL,
    snap INTEGER NOT NULL,
    -- When a deleted key became a tombstone.
    buried_at_ms INTEGER,
    -- Exactly what DUMP gives.
    payload BLOB,
    -- The value as JSON, when the tier was asked to keep it.
    decoded TEXT,
    PRIMARY KEY (tag_id, key),
    CHECK ((payload IS NULL) = (buried_at_ms IS NOT NULL)),
    CHECK ((payload IS NULL) = (kind IS NULL)),
    CHECK (payload IS NOT NULL OR (expires_at_ms IS NULL AND decoded IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX keys_expiring ON keys (expires_at_ms) WHERE expires_at_ms IS NOT NULL;
CREATE INDEX keys_buried ON keys (buried_at_ms) WHERE buried_at_ms IS NOT NULL;

-- One row, moved by every transaction that changes what it sums up.
CREATE TABLE totals (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    tags INTEGER NOT NULL CHECK (tags >= 0),
    keys INTEGER NOT NULL CHECK (keys >= 0),
    tombstones INTEGER NOT NULL CHECK (tombstones >= 0),
    bytes INTEGER NOT NULL CHECK (bytes >= 0),
    -- The highest version that any tag was ever saved with.
    newest_generation INTEGER NOT NULL,
    newest_snap INTEGER NOT NULL
) STRICT;

INSERT INTO totals VALUES (1, 0, 0, 0, 0, 0, 0);

CREATE TABLE facts (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- For people: what is stored, in words.
CREATE VIEW decoded_keys AS
SELECT
    CAST(tags.tag AS TEXT) AS tag,
    CAST(keys.key AS TEXT) AS key,
    CASE keys.kind
        WHEN 0 THEN 'string' WHEN 1 THEN 'list' WHEN 2 THEN 'set'
        WHEN 3 THEN 'zset' WHEN 4 THEN 'hash' WHEN 5 THEN 'stream'
    END AS type,
    keys.decoded AS value,
    keys.expires_at_ms,
    length(keys.payload) AS payload_bytes,
    CASE tags.status WHEN 0 THEN 'need_synced' WHEN 1 THEN 'synced' WHEN 2 THEN 'cleaned' END AS status
FROM keys
JOIN tags ON tags.id = keys.tag_id
WHERE keys.buried_at_ms IS NULL;
