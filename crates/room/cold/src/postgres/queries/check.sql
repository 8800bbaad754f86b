-- name: any_plan
-- Reading everything is done another way than finding a few rows.
SET LOCAL enable_seqscan = on; SET LOCAL enable_hashjoin = on; SET LOCAL enable_mergejoin = on

-- name: delete_orphans
DELETE FROM room_keys AS keys
WHERE NOT EXISTS (SELECT 1 FROM room_tags AS tags WHERE tags.tag = keys.tag)

-- name: orphans
SELECT count(*)
FROM room_keys AS keys
WHERE NOT EXISTS (SELECT 1 FROM room_tags AS tags WHERE tags.tag = keys.tag)

-- name: recount_tags
UPDATE room_tags AS tags
SET keys = found.keys, bytes = found.bytes, tombstones = found.tombstones
FROM (
    SELECT
        tags.tag,
        count(keys.payload) AS keys,
        coalesce(sum(octet_length(keys.key) + octet_length(keys.payload)), 0) AS bytes,
        count(keys.buried_at_ms) AS tombstones
    FROM room_tags AS tags
    LEFT JOIN room_keys AS keys ON keys.tag = tags.tag
    GROUP BY tags.tag
) AS found
WHERE tags.tag = found.tag
  AND (tags.keys, tags.bytes, tags.tombstones) IS DISTINCT FROM (found.keys, found.bytes, found.tombstones)

-- name: sizes
-- Tags that say something else of their keys than is there.
-- $1 how many
SELECT
    tags.tag, tags.keys, tags.bytes, tags.tombstones,
    coalesce(found.keys, 0), coalesce(found.bytes, 0)::bigint, coalesce(found.tombstones, 0)
FROM room_tags AS tags
LEFT JOIN (
    SELECT
        tag,
        count(payload) AS keys,
        sum(octet_length(key) + octet_length(payload)) AS bytes,
        count(buried_at_ms) AS tombstones
    FROM room_keys
    GROUP BY tag
) AS found ON found.tag = tags.tag
WHERE (tags.keys, tags.bytes, tags.tombstones)
    IS DISTINCT FROM (coalesce(found.keys, 0), coalesce(found.bytes, 0), coalesce(found.tombstones, 0))
LIMIT $1

-- name: totals
SELECT
    count(*), coalesce(sum(keys), 0)::bigint, coalesce(sum(tombstones), 0)::bigint,
    coalesce(sum(bytes), 0)::bigint
FROM room_tags
