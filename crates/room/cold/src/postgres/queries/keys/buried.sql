-- $1 before  $2 how many
SELECT tag, key
FROM room_keys
WHERE buried_at_ms IS NOT NULL AND buried_at_ms < $1
ORDER BY buried_at_ms
LIMIT $2
