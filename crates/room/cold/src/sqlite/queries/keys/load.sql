-- A tag and its keys in one statement, so that both are of one moment.
-- A tag without keys gives one row without a key.
SELECT
    tags.generation, tags.saved_generation, tags.saved_snap,
    keys.key, keys.kind, keys.expires_at_ms, keys.payload
FROM tags
LEFT JOIN keys ON keys.tag_id = tags.id
WHERE tags.tag = ?1;
