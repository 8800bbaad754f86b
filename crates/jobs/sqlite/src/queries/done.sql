-- Jobs that have ended.

-- name: insert
INSERT INTO done (
    id, state, attempt, nonce, worker, started_ms, ended_ms, purge_at_ms, error, content_type, result
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)

-- name: find
SELECT state, attempt, nonce, worker, started_ms, ended_ms, purge_at_ms, error, content_type, result
FROM done WHERE id = ?1

-- name: delete
DELETE FROM done WHERE id = ?1

-- name: purgeable
SELECT d.id, d.state, j.queue, j.tenant
FROM done d JOIN jobs j ON j.id = d.id
WHERE d.purge_at_ms <= ?1
    AND NOT EXISTS (SELECT 1 FROM deliveries v WHERE v.job = d.id AND v.state = 1)
ORDER BY d.purge_at_ms
LIMIT ?2

-- name: of_queue
SELECT d.id, d.state, j.queue, j.tenant FROM done d JOIN jobs j ON j.id = d.id WHERE j.queue = ?1 LIMIT ?2

-- name: next
SELECT min(purge_at_ms) FROM done
