SELECT
    tag, generation, saved_generation, saved_snap, status,
    read_at_ms, written_at_ms, saved_at_ms, keys, bytes
FROM room_tags
WHERE tag > $1
ORDER BY tag
LIMIT $2
