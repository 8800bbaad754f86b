-- Jobs that a worker holds under a lease.

-- name: insert
INSERT INTO running (
    id, queue, tenant, attempt, attempt_max, nonce, worker, started_ms, lease_ms, lease_until_ms, plain, renewed_ms
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?8)

-- name: find
SELECT id, queue, tenant, attempt, attempt_max, nonce, worker, started_ms, lease_ms, lease_until_ms, plain FROM running WHERE id = ?1

-- name: extend
UPDATE running SET lease_until_ms = max(lease_until_ms, ?4 + coalesce(?5, lease_ms)), renewed_ms = ?4
WHERE id = ?1 AND attempt = ?2 AND nonce = ?3
RETURNING lease_until_ms

-- name: shift
-- The clock was set by ?1: leases end as long from now as before.
UPDATE running SET lease_until_ms = lease_until_ms + ?1, renewed_ms = renewed_ms + ?1

-- name: shift_back
-- A lease that was renewed after now (?1) was so by a clock that has been set back since.
UPDATE running SET lease_until_ms = ?1 + lease_until_ms - renewed_ms, renewed_ms = ?1 WHERE renewed_ms > ?1

-- name: grace
-- After a start: nobody could be asked for more time meanwhile, so each gets its own length, up to ?2.
UPDATE running SET lease_until_ms = max(lease_until_ms, ?1 + min(lease_ms, ?2))

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
