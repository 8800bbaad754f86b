SELECT tag, key, kind, expires_at_ms
FROM room_keys
WHERE buried_at_ms IS NULL
ORDER BY tag, key
LIMIT $1
