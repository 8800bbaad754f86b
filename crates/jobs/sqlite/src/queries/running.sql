-- Jobs that a worker holds under a lease.

-- name: insert
INSERT INTO running (
    id, queue, tenant, attempt, attempt_max, nonce, worker, started_ms, lease_ms, lease_until_ms, plain
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)

-- name: find
SELECT id, queue, tenant, attempt, attempt_max, nonce, worker, started_ms, lease_ms, lease_until_ms, plain FROM running WHERE id = ?1

-- name: extend
UPDATE running SET lease_until_ms = max(lease_until_ms, ?4 + coalesce(?5, lease_ms))
WHERE id = ?1 AND attempt = ?2 AND nonce = ?3
RETURNING lease_until_ms

-- name: delete
DELETE FROM running WHERE id = ?1

-- name: take
DELETE FROM running WHERE id = ?1
RETURNING id, queue, tenant, attempt, attempt_max, nonce, worker, started_ms, lease_ms, lease_until_ms, plain

-- name: take_expired
DELETE FROM running WHERE id IN (
    SELECT id FROM running WHERE lease_until_ms <= ?1 ORDER BY lease_until_ms LIMIT ?2
) RETURNING id, queue, tenant, attempt, attempt_max, nonce, worker, started_ms, lease_ms, lease_until_ms, plain

-- name: next
SELECT min(lease_until_ms) FROM running
