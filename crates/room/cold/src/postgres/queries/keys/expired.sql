-- $1 before  $2 how many
SELECT tag, key
FROM room_keys
WHERE expires_at_ms IS NOT NULL AND expires_at_ms < $1
ORDER BY expires_at_ms
LIMIT $2
