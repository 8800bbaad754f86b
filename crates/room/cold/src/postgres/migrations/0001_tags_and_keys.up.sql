-- Tags, their keys, and sums over both. Compatible: there is nothing before it.
--
-- Both tables are parted by the tag's hash, so that a vacuum, an index and a lock
-- on a relation concern a sixteenth. A tag and its keys are in parts of one number.
--
-- Room is left on pages: an update that touches no indexed column then stays on its
-- page and changes no index.
--
-- Payloads are not compressed a second time: what DUMP gives is compressed already
-- where that pays. Long ones lie apart, so a change of anything else leaves them alone.
--
-- Generations, snapshots and sizes are unsigned; they stay below 2^63.
-- Times are Unix milliseconds.

CREATE TABLE room_tags (
    tag bytea PRIMARY KEY,
    -- The last one claimed.
    generation bigint NOT NULL CHECK (generation > 0),
    -- The version of the last commit; zeros before the first.
    saved_generation bigint NOT NULL DEFAULT 0 CHECK (saved_generation BETWEEN 0 AND generation),
    saved_snap bigint NOT NULL DEFAULT 0 CHECK (saved_snap >= 0),
    read_at_ms bigint,
    written_at_ms bigint,
    saved_at_ms bigint,
    -- Keys with a value, and bytes of their names and payloads.
    keys bigint NOT NULL DEFAULT 0 CHECK (keys >= 0),
    bytes bigint NOT NULL DEFAULT 0 CHECK (bytes >= 0),
    tombstones bigint NOT NULL DEFAULT 0 CHECK (tombstones >= 0),
    -- The transaction that made the row, by which others learn of new tags.
    made_by xid8 NOT NULL DEFAULT pg_current_xact_id(),
    -- 0 need_synced, 1 synced, 2 cleaned.
    status smallint NOT NULL DEFAULT 0 CHECK (status BETWEEN 0 AND 2)
) PARTITION BY HASH (tag);

CREATE TABLE room_keys (
    tag bytea,
    key bytea,
    expires_at_ms bigint,
    -- The version of the snapshot that wrote this row.
    generation bigint NOT NULL,
    snap bigint NOT NULL,
    -- When a deleted key became a tombstone.
    buried_at_ms bigint,
    -- 0 string, 1 list, 2 set, 3 zset, 4 hash, 5 stream; nothing for a tombstone.
    kind smallint CHECK (kind BETWEEN 0 AND 5),
    -- Exactly what DUMP gives.
    payload bytea,
    -- The value as JSON, when the tier was asked to keep it.
    decoded jsonb,
    PRIMARY KEY (tag, key),
    CHECK ((payload IS NULL) = (buried_at_ms IS NOT NULL)),
    CHECK ((payload IS NULL) = (kind IS NULL)),
    CHECK (payload IS NOT NULL OR (expires_at_ms IS NULL AND decoded IS NULL))
) PARTITION BY HASH (tag);

ALTER TABLE room_keys ALTER COLUMN payload SET STORAGE EXTERNAL;

CREATE INDEX room_tags_made_by ON room_tags (made_by);
CREATE INDEX room_keys_expiring ON room_keys (expires_at_ms) WHERE expires_at_ms IS NOT NULL;
CREATE INDEX room_keys_buried ON room_keys (buried_at_ms) WHERE buried_at_ms IS NOT NULL;

DO $$
BEGIN
    FOR part IN 0..15 LOOP
        EXECUTE format(
            'CREATE TABLE room_tags_%1$s PARTITION OF room_tags
                FOR VALUES WITH (MODULUS 16, REMAINDER %1$s) WITH (fillfactor = 80)', part);
        EXECUTE format(
            'CREATE TABLE room_keys_%1$s PARTITION OF room_keys
                FOR VALUES WITH (MODULUS 16, REMAINDER %1$s) WITH (fillfactor = 90)', part);
    END LOOP;
END
$$;

-- What transactions add to the sums. Each connection has a row of its own as far as numbers go round, so
-- that commits do not queue for one row; only the sum of the rows has a meaning.
CREATE TABLE room_totals (
    part integer PRIMARY KEY,
    tags bigint NOT NULL,
    keys bigint NOT NULL,
    tombstones bigint NOT NULL,
    bytes bigint NOT NULL,
    -- The highest version that a tag was ever saved with.
    newest_generation bigint NOT NULL,
    newest_snap bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE room_facts (
    name text PRIMARY KEY,
    value bytea NOT NULL
);

-- For people: names and values in words.

-- Returns a name as text: as it is when it is UTF-8, else with its odd bytes escaped.
CREATE FUNCTION room_text(name bytea) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL RESTRICTED
AS $$
DECLARE
    escaped text := encode(name, 'escape');
BEGIN
    -- Without a backslash nothing was escaped.
    IF strpos(escaped, E'\\') = 0 THEN
        RETURN escaped;
    END IF;
    RETURN convert_from(name, 'UTF8');
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
    RETURN escaped;
END
$$;

CREATE VIEW room_decoded_keys AS
SELECT
    room_text(keys.tag) AS tag,
    room_text(keys.key) AS key,
    (ARRAY['string', 'list', 'set', 'zset', 'hash', 'stream'])[keys.kind + 1] AS type,
    keys.decoded AS value,
    to_timestamp(keys.expires_at_ms / 1000.0) AS expires_at,
    octet_length(keys.payload) AS payload_bytes,
    (ARRAY['need_synced', 'synced', 'cleaned'])[tags.status + 1] AS status,
    keys.tag AS tag_bytes,
    keys.key AS key_bytes
FROM room_keys AS keys
JOIN room_tags AS tags ON tags.tag = keys.tag
WHERE keys.buried_at_ms IS NULL;

-- One row per string. Give `tag_bytes` a condition to find one tag fast.
CREATE VIEW room_strings AS
SELECT
    room_text(tag) AS tag,
    room_text(key) AS key,
    decoded #>> '{}' AS value,
    to_timestamp(expires_at_ms / 1000.0) AS expires_at,
    tag AS tag_bytes,
    key AS key_bytes
FROM room_keys
WHERE kind = 0;

-- One row per field of a hash.
CREATE VIEW room_hashes AS
SELECT
    room_text(keys.tag) AS tag,
    room_text(keys.key) AS key,
    fields.key AS field,
    fields.value AS value,
    to_timestamp(keys.expires_at_ms / 1000.0) AS expires_at,
    keys.tag AS tag_bytes,
    keys.key AS key_bytes
FROM room_keys AS keys
CROSS JOIN LATERAL jsonb_each_text(keys.decoded) AS fields
WHERE keys.kind = 4;
