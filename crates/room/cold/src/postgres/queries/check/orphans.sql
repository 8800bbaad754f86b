SELECT count(*)
FROM room_keys AS keys
WHERE NOT EXISTS (SELECT 1 FROM room_tags AS tags WHERE tags.tag = keys.tag)
