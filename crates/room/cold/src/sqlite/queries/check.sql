-- name: delete_orphans
DELETE FROM keys WHERE NOT EXISTS (SELECT 1 FROM tags WHERE tags.id = keys.tag_id);

-- name: file
PRAGMA quick_check(20);

-- name: orphans
SELECT count(*) FROM keys WHERE NOT EXISTS (SELECT 1 FROM tags WHERE tags.id = keys.tag_id);

-- name: payloads
SELECT key, payload FROM keys WHERE tag_id = ?1 AND payload IS NOT NULL;

-- name: recount_tags
UPDATE tags SET (keys, bytes, tombstones) = (
    SELECT
        count(keys.payload),
        coalesce(sum(length(keys.key) + length(keys.payload)), 0),
        count(keys.buried_at_ms)
    FROM keys
    WHERE keys.tag_id = tags.id
);

-- name: sizes
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

-- name: tag_from
SELECT id FROM tags WHERE id >= ?1 ORDER BY id LIMIT 1;

-- name: tag_range
SELECT coalesce(min(id), 0), coalesce(max(id), 0) FROM tags;

-- name: totals
SELECT count(*), coalesce(sum(keys), 0), coalesce(sum(tombstones), 0), coalesce(sum(bytes), 0) FROM tags;
