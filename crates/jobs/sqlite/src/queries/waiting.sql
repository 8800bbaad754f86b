-- Jobs that wait for a time or for other jobs: delayed, blocked, dependencies, endings to resolve.

-- name: insert_delayed
INSERT INTO delayed (run_at_ms, id, attempt, attempt_max) VALUES (?1, ?2, ?3, ?4)

-- name: find_delayed
SELECT run_at_ms, attempt FROM delayed WHERE id = ?1

-- name: take_delayed
DELETE FROM delayed WHERE id = ?1 RETURNING run_at_ms, attempt, attempt_max

-- name: take_due
DELETE FROM delayed WHERE (run_at_ms, id) IN (
    SELECT run_at_ms, id FROM delayed WHERE run_at_ms <= ?1 ORDER BY run_at_ms, id LIMIT ?2
) RETURNING run_at_ms, id, attempt, attempt_max

-- name: next_delayed
SELECT min(run_at_ms) FROM delayed

-- name: insert_blocked
INSERT INTO blocked (id, pending) VALUES (?1, ?2)

-- name: lower_blocked
UPDATE blocked SET pending = pending - 1 WHERE id = ?1 AND pending > 1

-- name: delete_blocked
DELETE FROM blocked WHERE id = ?1

-- name: is_blocked
SELECT EXISTS (SELECT 1 FROM blocked WHERE id = ?1)

-- name: insert_dependency
INSERT INTO dependencies (parent, child) VALUES (?1, ?2)

-- name: delete_dependency
DELETE FROM dependencies WHERE parent = ?1 AND child = ?2

-- name: delete_dependencies_of
DELETE FROM dependencies WHERE child = ?1

-- name: parents
SELECT parent FROM dependencies WHERE child = ?1 ORDER BY parent

-- name: children
SELECT child FROM dependencies WHERE parent = ?1 ORDER BY child LIMIT ?2

-- name: has_children
SELECT EXISTS (SELECT 1 FROM dependencies WHERE parent = ?1)

-- name: count_dependencies
SELECT count(*) FROM dependencies

-- name: insert_revival
INSERT OR IGNORE INTO revivals (parent, child) VALUES (?1, ?2)

-- name: revivals
SELECT child FROM revivals WHERE parent = ?1 ORDER BY child

-- name: delete_revivals
DELETE FROM revivals WHERE parent = ?1 OR child = ?1

-- name: delete_revivals_of
DELETE FROM revivals WHERE child = ?1

-- name: insert_resolving
INSERT OR REPLACE INTO resolving (parent, succeeded) VALUES (?1, ?2)

-- name: first_resolving
SELECT parent, succeeded FROM resolving ORDER BY parent LIMIT 1

-- name: delete_resolving
DELETE FROM resolving WHERE parent = ?1
