-- name: add
UPDATE totals SET tags = tags + ?1, keys = keys + ?2, tombstones = tombstones + ?3, bytes = bytes + ?4;

-- name: clear
UPDATE totals SET tags = 0, keys = 0, tombstones = 0, bytes = 0;

-- name: get
SELECT tags, keys, tombstones, bytes, newest_generation, newest_snap FROM totals;

-- name: raise_newest
UPDATE totals SET newest_generation = ?1, newest_snap = ?2
WHERE (newest_generation, newest_snap) < (?1, ?2);

-- name: recount
UPDATE totals SET (tags, keys, tombstones, bytes) = (
    SELECT count(*), coalesce(sum(keys), 0), coalesce(sum(tombstones), 0), coalesce(sum(bytes), 0)
    FROM tags
);
