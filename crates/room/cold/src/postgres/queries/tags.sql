-- name: claim
-- Moves a generation on. A tag that was never saved is left alone until everybody can know of it.
-- $1 tag  $2 the generation it has to have  $3 whether everybody can know of it
UPDATE room_tags
SET generation = generation + 1
WHERE tag = $1 AND generation = $2 AND (saved_generation > 0 OR $3)
RETURNING generation, saved_generation, saved_snap

-- name: delete
DELETE FROM room_tags WHERE tag = $1

-- name: delete_empty
-- Removes tags without any key or tombstone that were last saved long enough ago.
-- $1 the transaction before the first  $2 the last  $3 generation and $4 snap of the newest that may go
DELETE FROM room_tags
WHERE made_by > $1::text::xid8 AND made_by <= $2::text::xid8 AND keys = 0 AND tombstones = 0
  AND (saved_generation, saved_snap) <= ($3, $4)

-- name: delete_saved_up_to
-- Returns what went.
-- $1 generation and $2 snap of the newest that may go
WITH gone AS (
    DELETE FROM room_tags
    WHERE (saved_generation, saved_snap) <= ($1, $2)
    RETURNING keys, tombstones, bytes
)
SELECT
    count(*), coalesce(sum(keys), 0)::bigint, coalesce(sum(tombstones), 0)::bigint,
    coalesce(sum(bytes), 0)::bigint
FROM gone

-- name: ensure
-- Makes rows in the order of the tags, so that two calls wait for each other in one direction only.
-- $1 tags, each once
WITH made AS (
    INSERT INTO room_tags (tag, generation)
    SELECT wanted.tag, 1 FROM unnest($1::bytea[]) AS wanted (tag) ORDER BY wanted.tag
    ON CONFLICT (tag) DO NOTHING
    RETURNING 1
)
SELECT count(*) FROM made

-- name: fence
-- Locks tags, in their order, until the transaction ends, and reads what a snapshot is compared with.
-- $1 tags
SELECT tags.tag, tags.generation, tags.saved_generation, tags.saved_snap,
       tags.keys, tags.bytes, tags.tombstones
FROM unnest($1::bytea[]) AS wanted (tag)
JOIN room_tags AS tags ON tags.tag = wanted.tag
ORDER BY tags.tag
FOR UPDATE OF tags

-- name: generation
-- The generations of those of the tags that have rows, with their places in the list.
-- $1 tags
SELECT wanted.place, tags.generation
FROM unnest($1::bytea[]) WITH ORDINALITY AS wanted (tag, place)
JOIN room_tags AS tags ON tags.tag = wanted.tag

-- name: get
SELECT
    tag, generation, saved_generation, saved_snap, status,
    read_at_ms, written_at_ms, saved_at_ms, keys, bytes
FROM room_tags
WHERE tag = $1

-- name: known
-- Those of the tags that have a row, by their places in the list, and whether they were ever saved.
-- $1 tags
SELECT wanted.place, tags.saved_generation > 0
FROM unnest($1::bytea[]) WITH ORDINALITY AS wanted (tag, place)
JOIN room_tags AS tags ON tags.tag = wanted.tag

-- name: last_of
-- The transaction that made the last of the next few tags, in the order in which they were made.
-- $1 the transaction before them  $2 how many
SELECT made_by::text
FROM (
    SELECT made_by FROM room_tags WHERE made_by > $1::text::xid8 ORDER BY made_by LIMIT $2
) AS next
ORDER BY made_by DESC
LIMIT 1

-- name: list_after
SELECT
    tag, generation, saved_generation, saved_snap, status,
    read_at_ms, written_at_ms, saved_at_ms, keys, bytes
FROM room_tags
WHERE tag > $1
ORDER BY tag
LIMIT $2

-- name: list_first
SELECT
    tag, generation, saved_generation, saved_snap, status,
    read_at_ms, written_at_ms, saved_at_ms, keys, bytes
FROM room_tags
ORDER BY tag
LIMIT $1

-- name: lock_all
-- Lets everybody finish who has a tag locked, and keeps others from locking one.
LOCK TABLE room_tags IN EXCLUSIVE MODE

-- name: note_access
-- Later times win; a missing one changes nothing.
-- $1 tags, each once  $2 read_at_ms  $3 written_at_ms
WITH locked AS (
    SELECT tags.tag, used.read_at_ms, used.written_at_ms
    FROM unnest($1::bytea[], $2::bigint[], $3::bigint[]) AS used (tag, read_at_ms, written_at_ms)
    JOIN room_tags AS tags ON tags.tag = used.tag
    WHERE greatest(tags.read_at_ms, used.read_at_ms) IS DISTINCT FROM tags.read_at_ms
       OR greatest(tags.written_at_ms, used.written_at_ms) IS DISTINCT FROM tags.written_at_ms
    ORDER BY tags.tag
    FOR UPDATE OF tags
)
UPDATE room_tags AS tags
SET
    read_at_ms = greatest(tags.read_at_ms, locked.read_at_ms),
    written_at_ms = greatest(tags.written_at_ms, locked.written_at_ms)
FROM locked
WHERE tags.tag = locked.tag

-- name: saved
-- Notes what was saved of tags that are locked. Later times win; a missing one changes nothing.
-- $1 tags  $2 generations  $3 snaps  $4 read_at_ms  $5 written_at_ms  $6 keys, $7 bytes and $8 tombstones
-- that came or went  $9 now
UPDATE room_tags AS tags
SET
    saved_generation = saved.generation,
    saved_snap = saved.snap,
    status = 1,
    read_at_ms = greatest(tags.read_at_ms, saved.read_at_ms),
    written_at_ms = greatest(tags.written_at_ms, saved.written_at_ms),
    saved_at_ms = $9::bigint,
    keys = tags.keys + saved.keys,
    bytes = tags.bytes + saved.bytes,
    tombstones = tags.tombstones + saved.tombstones
FROM unnest(
    $1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[]
) AS saved (tag, generation, snap, read_at_ms, written_at_ms, keys, bytes, tombstones)
WHERE tags.tag = saved.tag

-- name: set_status
-- $1 tags  $2 status
WITH locked AS (
    SELECT tags.tag
    FROM unnest($1::bytea[]) AS wanted (tag)
    JOIN room_tags AS tags ON tags.tag = wanted.tag
    WHERE tags.status <> $2
    ORDER BY tags.tag
    FOR UPDATE OF tags
)
UPDATE room_tags AS tags SET status = $2 FROM locked WHERE tags.tag = locked.tag

-- name: shrink
-- $1 tags  $2 keys, $3 bytes and $4 tombstones that went
UPDATE room_tags AS tags
SET
    keys = tags.keys - gone.keys,
    bytes = tags.bytes - gone.bytes,
    tombstones = tags.tombstones - gone.tombstones
FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[]) AS gone (tag, keys, bytes, tombstones)
WHERE tags.tag = gone.tag
