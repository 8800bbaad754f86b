-- The jobs themselves: registration, reading, listings.

-- name: insert
INSERT INTO jobs (
    id, queue, tenant, kind, priority, created_ms, run_at_ms, lease_ms, max_retries, seq_from, options,
    content_type, payload
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)

-- name: delete
DELETE FROM jobs WHERE id = ?1

-- name: find
SELECT queue, tenant, priority, max_retries, run_at_ms, options FROM jobs WHERE id = ?1

-- name: edit
UPDATE jobs SET priority = coalesce(?2, priority), run_at_ms = coalesce(?3, run_at_ms),
    lease_ms = coalesce(?4, lease_ms), max_retries = coalesce(?5, max_retries),
    content_type = CASE WHEN ?7 IS NULL THEN content_type ELSE ?6 END, payload = coalesce(?7, payload),
    queue = coalesce(?8, queue)
WHERE id = ?1

-- name: forget_run_at
UPDATE jobs SET run_at_ms = NULL WHERE id = ?1

-- name: highest_id
-- The highest number in use as a job id or a position.
SELECT max(
    coalesce((SELECT max(id) FROM jobs), 0),
    coalesce((SELECT max(pos) FROM positions), 0),
    coalesce((SELECT max(pos) FROM held), 0)
)

-- name: summary
SELECT j.id, j.queue, j.tenant, j.kind, j.priority, j.created_ms, j.max_retries, j.options,
    r.attempt, w.run_at_ms, w.attempt, d.state, d.attempt, d.ended_ms, d.error, h.attempt
FROM jobs j
LEFT JOIN running r ON r.id = j.id
LEFT JOIN done d ON d.id = j.id
LEFT JOIN delayed w ON w.id = j.id
LEFT JOIN held h ON h.id = j.id
WHERE j.id = ?1

-- name: body
SELECT run_at_ms, lease_ms, content_type, payload FROM jobs WHERE id = ?1

-- name: state
SELECT j.queue, j.tenant, j.priority,
    EXISTS (SELECT 1 FROM running WHERE id = ?1),
    (SELECT state FROM done WHERE id = ?1),
    EXISTS (SELECT 1 FROM delayed WHERE id = ?1)
FROM jobs j WHERE j.id = ?1

-- name: list_all
SELECT id FROM jobs WHERE id < ?1 ORDER BY id DESC LIMIT ?2

-- name: list_running
SELECT id FROM running WHERE id < ?1 ORDER BY id DESC LIMIT ?2

-- name: list_delayed
SELECT id FROM delayed WHERE id < ?1 ORDER BY id DESC LIMIT ?2

-- name: list_done
SELECT id FROM done WHERE id < ?1 ORDER BY id DESC LIMIT ?2

-- name: list_unsuccessful
SELECT id FROM done WHERE state <> 4 AND id < ?1 ORDER BY id DESC LIMIT ?2
