-- Jobs that wait for a time or for other jobs: delayed, blocked, dependencies, endings to resolve.

-- name: insert_delayed
INSERT INTO jobs_delayed SELECT * FROM json_populate_recordset(NULL::jobs_delayed, $1::text::json)

-- name: take_delayed
WITH gone AS (
    DELETE FROM jobs_delayed WHERE id = $1
    RETURNING id, queue, tenant, rank, attempt, attempt_max, flags
)
SELECT gone.id, gone.queue, gone.tenant, gone.rank, attempt, attempt_max, flags, job.options
FROM gone JOIN jobs_job job ON job.id = gone.id

-- name: take_due
WITH due AS MATERIALIZED (
    SELECT run_at_ms, id FROM jobs_delayed WHERE run_at_ms <= $1::int8
    ORDER BY run_at_ms, id LIMIT $2::int8 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM jobs_delayed WHERE id = ANY (ARRAY(SELECT id FROM due))
    RETURNING id, queue, tenant, rank, attempt, attempt_max, flags, run_at_ms
)
SELECT gone.id, gone.queue, gone.tenant, gone.rank, attempt, attempt_max, flags, job.options
FROM gone CROSS JOIN LATERAL (SELECT options FROM jobs_job WHERE jobs_job.id = gone.id OFFSET 0) job
ORDER BY gone.run_at_ms, gone.id

-- name: next_times
SELECT (SELECT min(run_at_ms) FROM jobs_delayed), (SELECT min(lease_until_ms) FROM jobs_running),
       (SELECT min(next_run_ms) FROM jobs_schedule WHERE next_run_ms IS NOT NULL),
       (SELECT min(next_try_ms) FROM jobs_delivery WHERE state = 0), (SELECT min(purge_at_ms) FROM jobs_done)

-- name: edit_delayed
UPDATE jobs_delayed SET rank = coalesce($2::int2, rank),
    attempt_max = greatest(coalesce($3::int4, attempt_max), attempt + 1), queue = coalesce($4::int4, queue)
WHERE id = $1::int8

-- name: edit_blocked
UPDATE jobs_blocked SET rank = coalesce($2::int2, rank),
    attempt_max = greatest(coalesce($3::int4, attempt_max), attempt + 1),
    run_at_ms = coalesce($4::int8, run_at_ms), queue = coalesce($5::int4, queue)
WHERE id = $1::int8

-- name: take_held
-- Removes a job that waits for a slot of its concurrency key.
WITH gone AS (
    DELETE FROM jobs_blocked WHERE id = $1 AND place IS NOT NULL
    RETURNING id, queue, tenant, rank, attempt, attempt_max, flags
)
SELECT gone.id, gone.queue, gone.tenant, gone.rank, attempt, attempt_max, flags, job.options
FROM gone JOIN jobs_job job ON job.id = gone.id

-- name: insert_blocked
INSERT INTO jobs_blocked SELECT * FROM json_populate_recordset(NULL::jobs_blocked, $1::text::json)

-- name: take_blocked
WITH gone AS (
    DELETE FROM jobs_blocked WHERE id = $1
    RETURNING id, queue, tenant, rank, attempt, attempt_max, flags
), forgotten AS (
    DELETE FROM jobs_dependency WHERE dependent = $1
)
SELECT gone.id, gone.queue, gone.tenant, gone.rank, attempt, attempt_max, flags, job.options
FROM gone JOIN jobs_job job ON job.id = gone.id

-- name: release_dependents
-- Applies a success to dependents; those without further dependencies are removed and returned.
WITH told AS (
    DELETE FROM jobs_dependency WHERE on_job = $1 RETURNING dependent
), less AS MATERIALIZED (
    SELECT blocked.id, blocked.pending - 1 AS pending FROM jobs_blocked blocked
    WHERE blocked.id = ANY (ARRAY(SELECT dependent FROM told))
    ORDER BY blocked.id FOR UPDATE
), lowered AS (
    UPDATE jobs_blocked SET pending = less.pending FROM less
    WHERE jobs_blocked.id = less.id AND less.pending > 0
    RETURNING jobs_blocked.id, queue, tenant, rank, attempt, attempt_max, flags, jobs_blocked.pending, run_at_ms
), freed AS (
    DELETE FROM jobs_blocked USING less
    WHERE jobs_blocked.id = less.id AND less.pending <= 0
    RETURNING jobs_blocked.id, queue, tenant, rank, attempt, attempt_max, flags, 0 AS pending, run_at_ms
)
SELECT one.id, one.queue, one.tenant, one.rank, one.attempt, one.attempt_max, one.flags, job.options, one.pending,
       one.run_at_ms
FROM (SELECT * FROM lowered UNION ALL SELECT * FROM freed) one JOIN jobs_job job ON job.id = one.id
ORDER BY one.id

-- name: take_dependents
-- Removes and returns the jobs that depend on one that did not succeed.
WITH gone AS (
    DELETE FROM jobs_blocked
    WHERE id IN (SELECT dependent FROM jobs_dependency WHERE on_job = $1)
    RETURNING id, queue, tenant, rank, attempt, attempt_max, flags
), forgotten AS (
    DELETE FROM jobs_dependency WHERE on_job = $1 OR dependent IN (SELECT id FROM gone)
)
SELECT gone.id, gone.queue, gone.tenant, gone.rank, attempt, attempt_max, flags, job.options
FROM gone JOIN jobs_job job ON job.id = gone.id
ORDER BY gone.id

-- name: insert_revivals
INSERT INTO jobs_revival (parent, child) SELECT $1::int8, unnest($2::int8[]) ON CONFLICT DO NOTHING

-- name: revivals
SELECT child FROM jobs_revival WHERE parent = $1 ORDER BY child

-- name: delete_revivals_of
DELETE FROM jobs_revival WHERE child = $1

-- name: insert_dependencies
INSERT INTO jobs_dependency (dependent, on_job) SELECT $1::int8, unnest($2::int8[]) ON CONFLICT DO NOTHING

-- name: insert_resolving
INSERT INTO jobs_resolve (id)
SELECT DISTINCT on_job FROM jobs_dependency WHERE on_job = ANY ($1::int8[])
ON CONFLICT DO NOTHING

-- name: insert_resolving_ended
INSERT INTO jobs_resolve (id)
SELECT DISTINCT on_job FROM jobs_dependency JOIN jobs_done ON jobs_done.id = on_job WHERE on_job = ANY ($1::int8[])
ON CONFLICT DO NOTHING

-- name: insert_resolving_all_ended
INSERT INTO jobs_resolve (id)
SELECT DISTINCT on_job FROM jobs_dependency JOIN jobs_done ON jobs_done.id = on_job LIMIT $1
ON CONFLICT DO NOTHING

-- name: lock_resolving
-- Ended jobs with dependents, and how they ended; NULL for a job that runs again.
SELECT resolve.id, (SELECT state FROM jobs_done WHERE jobs_done.id = resolve.id)
FROM jobs_resolve resolve ORDER BY resolve.id LIMIT $1 FOR UPDATE SKIP LOCKED

-- name: delete_resolving
DELETE FROM jobs_resolve WHERE id = ANY ($1::int8[])
