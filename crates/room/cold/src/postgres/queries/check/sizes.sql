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
