-- Tags and their keys in one statement, so that both are of one moment.
-- A tag without keys gives one row without a key.
-- $1 tags
SELECT
    wanted.place, tags.generation, tags.saved_generation, tags.saved_snap,
    keys.key, keys.kind, keys.expires_at_ms, keys.payload
FROM unnest($1::bytea[]) WITH ORDINALITY AS wanted (tag, place)
JOIN room_tags AS tags ON tags.tag = wanted.tag
LEFT JOIN room_keys AS keys ON keys.tag = tags.tag
