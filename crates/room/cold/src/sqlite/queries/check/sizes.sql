-- What a tag says of its keys, and what is there.
SELECT
    tags.tag, tags.keys, tags.bytes, tags.tombstones,
    count(keys.payload),
    coalesce(sum(length(keys.key) + length(keys.payload)), 0),
    count(keys.buried_at_ms)
FROM tags
LEFT JOIN keys ON keys.tag_id = tags.id
WHERE tags.id = ?1
GROUP BY tags.id;
