-- Locks tags, in their order, until the transaction ends, and reads what a snapshot is compared with.
-- $1 tags
SELECT tags.tag, tags.generation, tags.saved_generation, tags.saved_snap,
       tags.keys, tags.bytes, tags.tombstones
FROM unnest($1::bytea[]) AS wanted (tag)
JOIN room_tags AS tags ON tags.tag = wanted.tag
ORDER BY tags.tag
FOR UPDATE OF tags
