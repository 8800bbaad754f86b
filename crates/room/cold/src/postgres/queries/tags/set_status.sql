-- $1 tags  $2 status
WITH locked AS (
    SELECT tags.tag
    FROM unnest($1::bytea[]) AS wanted (tag)
    JOIN room_tags AS tags ON tags.tag = wanted.tag
    WHERE tags.status <> $2
    ORDER BY tags.tag
    FOR UPDATE OF tags
)
UPDATE room_tags AS tags SET status = $2 FROM locked WHERE tags.tag = locked.tag
