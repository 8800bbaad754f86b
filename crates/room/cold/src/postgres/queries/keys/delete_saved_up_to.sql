-- $1 generation and $2 snap of the newest that may go
DELETE FROM room_keys AS keys
USING room_tags AS tags
WHERE tags.tag = keys.tag AND (tags.saved_generation, tags.saved_snap) <= ($1, $2)
