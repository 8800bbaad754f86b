SELECT tag_id, key, length(payload)
FROM keys
WHERE expires_at_ms IS NOT NULL AND expires_at_ms < ?1
ORDER BY expires_at_ms
LIMIT ?2;
