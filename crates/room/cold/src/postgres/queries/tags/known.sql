-- Those of the tags that have a row, by their places in the list, and whether they were ever saved.
-- $1 tags
SELECT wanted.place, tags.saved_generation > 0
FROM unnest($1::bytea[]) WITH ORDINALITY AS wanted (tag, place)
JOIN room_tags AS tags ON tags.tag = wanted.tag
