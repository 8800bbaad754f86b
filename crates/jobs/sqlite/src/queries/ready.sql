-- Jobs that can be claimed, and the positions of those that were made ready again.

-- name: insert
INSERT INTO ready (queue, tenant, rank, pos, id, attempt, attempt_max) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)

-- name: first
SELECT r.rank, r.pos, r.id, r.attempt, r.attempt_max,
    j.kind, j.priority, j.created_ms, j.lease_ms, j.max_retries, j.options, j.content_type, j.payload
FROM ready r CROSS JOIN jobs j ON j.id = r.id
WHERE r.queue = ?1 AND r.tenant = ?2
ORDER BY r.rank, r.pos
LIMIT ?3

-- name: delete_up_to
DELETE FROM ready WHERE queue = ?1 AND tenant = ?2 AND (rank, pos) <= (?3, ?4)

-- name: take
DELETE FROM ready WHERE queue = ?1 AND tenant = ?2 AND rank = ?3 AND pos = ?4 RETURNING attempt, attempt_max

-- name: ahead
SELECT count(*) FROM (
    SELECT 1 FROM ready WHERE queue = ?1 AND tenant = ?2 AND (rank, pos) < (?3, ?4) LIMIT 100000
)

-- name: position
SELECT pos FROM positions WHERE id = ?1

-- name: put_position
INSERT OR REPLACE INTO positions (id, pos) VALUES (?1, ?2)

-- name: delete_position
DELETE FROM positions WHERE id = ?1
