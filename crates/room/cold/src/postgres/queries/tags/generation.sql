-- The generations of those of the tags that have rows, with their places in the list.
-- $1 tags
SELECT wanted.place, tags.generation
FROM unnest($1::bytea[]) WITH ORDINALITY AS wanted (tag, place)
JOIN room_tags AS tags ON tags.tag = wanted.tag
