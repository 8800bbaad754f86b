-- Later times win; a missing one changes nothing.
-- $1 tags, each once  $2 read_at_ms  $3 written_at_ms
WITH locked AS (
    SELECT tags.tag, used.read_at_ms, used.written_at_ms
    FROM unnest($1::bytea[], $2::bigint[], $3::bigint[]) AS used (tag, read_at_ms, written_at_ms)
    JOIN room_tags AS tags ON tags.tag = used.tag
    WHERE greatest(tags.read_at_ms, used.read_at_ms) IS DISTINCT FROM tags.read_at_ms
       OR greatest(tags.written_at_ms, used.written_at_ms) IS DISTINCT FROM tags.written_at_ms
    ORDER BY tags.tag
    FOR UPDATE OF tags
)
UPDATE room_tags AS tags
SET
    read_at_ms = greatest(tags.read_at_ms, locked.read_at_ms),
    written_at_ms = greatest(tags.written_at_ms, locked.written_at_ms)
FROM locked
WHERE tags.tag = locked.tag
