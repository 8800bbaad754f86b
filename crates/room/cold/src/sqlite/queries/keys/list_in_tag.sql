SELECT tags.tag, keys.key, keys.kind, keys.expires_at_ms
FROM tags
CROSS JOIN keys ON keys.tag_id = tags.id
WHERE tags.tag = ?1 AND keys.key > ?2 AND keys.buried_at_ms IS NULL
ORDER BY keys.key
LIMIT ?3;
