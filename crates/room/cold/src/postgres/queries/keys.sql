-- name: buried
-- $1 before  $2 how many
SELECT tag, key
FROM room_keys
WHERE buried_at_ms IS NOT NULL AND buried_at_ms < $1
ORDER BY buried_at_ms
LIMIT $2

-- name: delete
-- Removes those of the keys that are still due, of tags that are locked; returns what went, by tag.
-- $1 tags  $2 keys  $3 expired before  $4 buried before
WITH gone AS (
    DELETE FROM room_keys AS keys
    USING unnest($1::bytea[], $2::bytea[]) AS due (tag, key)
    WHERE keys.tag = due.tag AND keys.key = due.key
      AND (keys.expires_at_ms < $3 OR keys.buried_at_ms < $4)
    RETURNING keys.tag, keys.key, keys.payload, keys.buried_at_ms
)
SELECT
    tag,
    count(payload),
    coalesce(sum(octet_length(key) + octet_length(payload)), 0)::bigint,
    count(buried_at_ms)
FROM gone
GROUP BY tag

-- name: delete_of_tag
DELETE FROM room_keys WHERE tag = $1

-- name: delete_saved_up_to
-- $1 generation and $2 snap of the newest that may go
DELETE FROM room_keys AS keys
USING room_tags AS tags
WHERE tags.tag = keys.tag AND (tags.saved_generation, tags.saved_snap) <= ($1, $2)

-- name: expired
-- $1 before  $2 how many
SELECT tag, key
FROM room_keys
WHERE expires_at_ms IS NOT NULL AND expires_at_ms < $1
ORDER BY expires_at_ms
LIMIT $2

-- name: list_after
SELECT tag, key, kind, expires_at_ms
FROM room_keys
WHERE (tag, key) > ($1, $2) AND buried_at_ms IS NULL
ORDER BY tag, key
LIMIT $3

-- name: list_first
SELECT tag, key, kind, expires_at_ms
FROM room_keys
WHERE buried_at_ms IS NULL
ORDER BY tag, key
LIMIT $1

-- name: load
-- Tags and their keys in one statement, so that both are of one moment.
-- A tag without keys gives one row without a key.
-- $1 tags
SELECT
    wanted.place, tags.generation, tags.saved_generation, tags.saved_snap,
    keys.key, keys.kind, keys.expires_at_ms, keys.payload
FROM unnest($1::bytea[]) WITH ORDINALITY AS wanted (tag, place)
JOIN room_tags AS tags ON tags.tag = wanted.tag
LEFT JOIN room_keys AS keys ON keys.tag = tags.tag

-- name: of_tag
SELECT key, kind, expires_at_ms, payload FROM room_keys WHERE tag = $1

-- name: upsert
-- Writes keys of tags that are locked; one without a payload becomes a tombstone. Returns what rows there
-- were before, by tag: all parts of a statement see the tables as they were when it began.
-- $1 tags  $2 keys  $3 kinds  $4 expires_at_ms  $5 generations  $6 snaps  $7 payloads  $8 JSON  $9 now
WITH incoming AS MATERIALIZED (
    SELECT *
    FROM unnest(
        $1::bytea[], $2::bytea[], $3::smallint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bytea[], $8::text[]
    ) AS change (tag, key, kind, expires_at_ms, generation, snap, payload, decoded)
), written AS (
    INSERT INTO room_keys
        (tag, key, kind, expires_at_ms, generation, snap, buried_at_ms, payload, decoded)
    SELECT
        tag, key, kind, expires_at_ms, generation, snap,
        CASE WHEN payload IS NULL THEN $9::bigint END, payload, decoded::jsonb
    FROM incoming
    ON CONFLICT (tag, key) DO UPDATE SET
        kind = excluded.kind,
        expires_at_ms = excluded.expires_at_ms,
        generation = excluded.generation,
        snap = excluded.snap,
        buried_at_ms = excluded.buried_at_ms,
        payload = excluded.payload,
        decoded = excluded.decoded
)
SELECT
    old.tag,
    count(old.payload),
    coalesce(sum(octet_length(old.key) + octet_length(old.payload)), 0)::bigint,
    count(old.buried_at_ms)
FROM incoming
JOIN room_keys AS old ON old.tag = incoming.tag AND old.key = incoming.key
GROUP BY old.tag
