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
