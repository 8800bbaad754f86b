-- name: buried
SELECT tag_id, key, length(payload)
FROM keys
WHERE buried_at_ms IS NOT NULL AND buried_at_ms < ?1
ORDER BY buried_at_ms
LIMIT ?2;

-- name: bury
INSERT INTO keys (tag_id, key, generation, snap, buried_at_ms)
VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (tag_id, key) DO UPDATE SET
    kind = NULL,
    expires_at_ms = NULL,
    generation = excluded.generation,
    snap = excluded.snap,
    buried_at_ms = excluded.buried_at_ms,
    payload = NULL,
    decoded = NULL;

-- name: delete
DELETE FROM keys WHERE tag_id = ?1 AND key = ?2;

-- name: delete_all
DELETE FROM keys;

-- name: delete_of_tag
DELETE FROM keys WHERE tag_id = ?1;

-- name: delete_saved_up_to
DELETE FROM keys
WHERE tag_id IN (SELECT id FROM tags WHERE (saved_generation, saved_snap) <= (?1, ?2));

-- name: expired
SELECT tag_id, key, length(payload)
FROM keys
WHERE expires_at_ms IS NOT NULL AND expires_at_ms < ?1
ORDER BY expires_at_ms
LIMIT ?2;

-- name: list_after_tag
-- CROSS JOIN keeps tags outermost: the index on them gives the order.
SELECT tags.tag, keys.key, keys.kind, keys.expires_at_ms
FROM tags
CROSS JOIN keys ON keys.tag_id = tags.id
WHERE tags.tag > ?1 AND keys.buried_at_ms IS NULL
ORDER BY tags.tag, keys.key
LIMIT ?2;

-- name: list_first
-- CROSS JOIN keeps tags outermost: the index on them gives the order.
SELECT tags.tag, keys.key, keys.kind, keys.expires_at_ms
FROM tags
CROSS JOIN keys ON keys.tag_id = tags.id
WHERE keys.buried_at_ms IS NULL
ORDER BY tags.tag, keys.key
LIMIT ?1;

-- name: list_in_tag
SELECT tags.tag, keys.key, keys.kind, keys.expires_at_ms
FROM tags
CROSS JOIN keys ON keys.tag_id = tags.id
WHERE tags.tag = ?1 AND keys.key > ?2 AND keys.buried_at_ms IS NULL
ORDER BY keys.key
LIMIT ?3;

-- name: load
-- A tag and its keys in one statement, so that both are of one moment.
-- A tag without keys gives one row without a key.
SELECT
    tags.generation, tags.saved_generation, tags.saved_snap,
    keys.key, keys.kind, keys.expires_at_ms, keys.payload
FROM tags
LEFT JOIN keys ON keys.tag_id = tags.id
WHERE tags.tag = ?1;

-- name: size
SELECT length(payload) FROM keys WHERE tag_id = ?1 AND key = ?2;

-- name: upsert
INSERT INTO keys (tag_id, key, kind, expires_at_ms, generation, snap, payload, decoded)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (tag_id, key) DO UPDATE SET
    kind = excluded.kind,
    expires_at_ms = excluded.expires_at_ms,
    generation = excluded.generation,
    snap = excluded.snap,
    buried_at_ms = NULL,
    payload = excluded.payload,
    decoded = excluded.decoded;
