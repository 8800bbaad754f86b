-- name: claim
UPDATE tags SET generation = generation + 1 WHERE tag = ?1 AND generation = ?2;

-- name: delete
DELETE FROM tags WHERE id = ?1;

-- name: delete_all
DELETE FROM tags;

-- name: delete_empty
-- Removes tags without any key or tombstone that were last saved long enough ago.
-- ?1 the number before the first  ?2 the last number  ?3 generation and ?4 snap of the newest that may go
DELETE FROM tags
WHERE id > ?1 AND id <= ?2 AND keys = 0 AND tombstones = 0
  AND (saved_generation, saved_snap) <= (?3, ?4);

-- name: delete_saved_up_to
DELETE FROM tags WHERE (saved_generation, saved_snap) <= (?1, ?2);

-- name: ensure
INSERT INTO tags (tag, generation) VALUES (?1, 1) ON CONFLICT (tag) DO NOTHING;

-- name: fence
SELECT id, generation, saved_generation, saved_snap, keys, bytes, tombstones
FROM tags
WHERE tag = ?1;

-- name: generation
SELECT generation FROM tags WHERE tag = ?1;

-- name: get
SELECT
    tag, generation, saved_generation, saved_snap, status,
    read_at_ms, written_at_ms, saved_at_ms, keys, bytes
FROM tags
WHERE tag = ?1;

-- name: last_of
-- The last of the next few tags by number.
-- ?1 the number before them  ?2 how many
SELECT max(id) FROM (SELECT id FROM tags WHERE id > ?1 ORDER BY id LIMIT ?2);

-- name: list_after
SELECT
    tag, generation, saved_generation, saved_snap, status,
    read_at_ms, written_at_ms, saved_at_ms, keys, bytes
FROM tags
WHERE tag > ?1
ORDER BY tag
LIMIT ?2;

-- name: list_between
-- ?1 the first name  ?2 the name behind the last, or nothing  ?3 generation and ?4 snap of the newest
SELECT id, tag, keys, bytes, tombstones
FROM tags
WHERE tag >= ?1 AND (?2 IS NULL OR tag < ?2) AND (saved_generation, saved_snap) <= (?3, ?4);

-- name: list_first
SELECT
    tag, generation, saved_generation, saved_snap, status,
    read_at_ms, written_at_ms, saved_at_ms, keys, bytes
FROM tags
ORDER BY tag
LIMIT ?1;

-- name: name
SELECT tag FROM tags WHERE id = ?1;

-- name: note_access
-- Later times win; a missing one changes nothing.
UPDATE tags SET
    read_at_ms = max(coalesce(read_at_ms, ?2), coalesce(?2, read_at_ms)),
    written_at_ms = max(coalesce(written_at_ms, ?3), coalesce(?3, written_at_ms))
WHERE tag = ?1;

-- name: saved
-- Later times win; a missing one changes nothing.
UPDATE tags SET
    saved_generation = ?2,
    saved_snap = ?3,
    status = 1,
    read_at_ms = max(coalesce(read_at_ms, ?4), coalesce(?4, read_at_ms)),
    written_at_ms = max(coalesce(written_at_ms, ?5), coalesce(?5, written_at_ms)),
    saved_at_ms = ?6,
    keys = ?7,
    bytes = ?8,
    tombstones = ?9
WHERE id = ?1;

-- name: set_status
UPDATE tags SET status = ?2 WHERE tag = ?1 AND status <> ?2;

-- name: shrink
UPDATE tags SET keys = keys - ?2, bytes = bytes - ?3, tombstones = tombstones - ?4 WHERE id = ?1;

-- name: sum_between
-- ?1 the first name  ?2 the name behind the last
SELECT coalesce(sum(keys), 0) FROM tags WHERE tag >= ?1 AND tag < ?2;

-- name: sum_saved_up_to
SELECT count(*), coalesce(sum(keys), 0), coalesce(sum(tombstones), 0), coalesce(sum(bytes), 0)
FROM tags
WHERE (saved_generation, saved_snap) <= (?1, ?2);
