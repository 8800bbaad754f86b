-- Concurrency keys: their slots, and the jobs that wait for one.

-- name: find
SELECT places, taken FROM places WHERE queue = ?1 AND key = ?2

-- name: put
INSERT OR REPLACE INTO places (queue, key, places, taken) VALUES (?1, ?2, ?3, ?4)

-- name: delete
DELETE FROM places WHERE queue = ?1 AND key = ?2

-- name: insert_held
INSERT INTO held (queue, key, pos, id, attempt, attempt_max) VALUES (?1, ?2, ?3, ?4, ?5, ?6)

-- name: find_held
SELECT key, pos, attempt FROM held WHERE id = ?1

-- name: first_held
SELECT pos, id, attempt, attempt_max FROM held WHERE queue = ?1 AND key = ?2 ORDER BY pos LIMIT 1

-- name: delete_held
DELETE FROM held WHERE queue = ?1 AND key = ?2 AND pos = ?3

-- name: take_held
DELETE FROM held WHERE id = ?1 RETURNING attempt, attempt_max

-- name: ahead
SELECT count(*) FROM held WHERE queue = ?1 AND key = ?2 AND pos < ?3
