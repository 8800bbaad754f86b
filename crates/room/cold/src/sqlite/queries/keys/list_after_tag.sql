-- CROSS JOIN keeps tags outermost: the index on them gives the order.
SELECT tags.tag, keys.key, keys.kind, keys.expires_at_ms
FROM tags
CROSS JOIN keys ON keys.tag_id = tags.id
WHERE tags.tag > ?1 AND keys.buried_at_ms IS NULL
ORDER BY tags.tag, keys.key
LIMIT ?2;
