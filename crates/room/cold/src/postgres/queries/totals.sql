-- name: add
-- Comes last in a transaction: whoever waits for the row holds nothing that its holder still wants.
-- $1 tags  $2 keys  $3 tombstones  $4 bytes  $5 generation and $6 snap of the newest
INSERT INTO room_totals AS totals (part, tags, keys, tombstones, bytes, newest_generation, newest_snap)
VALUES (pg_backend_pid() % 64, $1, $2, $3, $4, $5, $6)
ON CONFLICT (part) DO UPDATE SET
    tags = totals.tags + excluded.tags,
    keys = totals.keys + excluded.keys,
    tombstones = totals.tombstones + excluded.tombstones,
    bytes = totals.bytes + excluded.bytes,
    newest_generation = CASE
        WHEN (excluded.newest_generation, excluded.newest_snap) > (totals.newest_generation, totals.newest_snap)
        THEN excluded.newest_generation ELSE totals.newest_generation END,
    newest_snap = CASE
        WHEN (excluded.newest_generation, excluded.newest_snap) > (totals.newest_generation, totals.newest_snap)
        THEN excluded.newest_snap ELSE totals.newest_snap END

-- name: clear
UPDATE room_totals SET tags = 0, keys = 0, tombstones = 0, bytes = 0

-- name: disk
SELECT coalesce(sum(pg_total_relation_size(inhrelid)), 0)::bigint
FROM pg_inherits
WHERE inhparent IN ('room_tags'::regclass, 'room_keys'::regclass)

-- name: get
SELECT
    coalesce(sum(tags), 0)::bigint, coalesce(sum(keys), 0)::bigint,
    coalesce(sum(tombstones), 0)::bigint, coalesce(sum(bytes), 0)::bigint
FROM room_totals

-- name: newest
SELECT newest_generation, newest_snap
FROM room_totals
ORDER BY newest_generation DESC, newest_snap DESC
LIMIT 1

-- name: recount
INSERT INTO room_totals AS totals (part, tags, keys, tombstones, bytes, newest_generation, newest_snap)
SELECT
    0, count(*), coalesce(sum(keys), 0), coalesce(sum(tombstones), 0), coalesce(sum(bytes), 0), 0, 0
FROM room_tags
ON CONFLICT (part) DO UPDATE SET
    tags = excluded.tags, keys = excluded.keys, tombstones = excluded.tombstones, bytes = excluded.bytes
