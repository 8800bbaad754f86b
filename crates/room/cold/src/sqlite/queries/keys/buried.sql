SELECT tag_id, key, length(payload)
FROM keys
WHERE buried_at_ms IS NOT NULL AND buried_at_ms < ?1
ORDER BY buried_at_ms
LIMIT ?2;
