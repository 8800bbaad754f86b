-- Jobs that have ended.

-- name: insert
INSERT INTO jobs_done SELECT * FROM json_populate_recordset(NULL::jobs_done, $1::text::json)

-- name: take
-- Removes and returns an ended job; its dependents wait for its next ending.
WITH gone AS (
    DELETE FROM jobs_done WHERE id = $1
    RETURNING id, queue, tenant, attempt, attempt_max, flags, nonce, worker, started_ms, ended_ms
), unresolved AS (
    DELETE FROM jobs_resolve WHERE id = $1
)
SELECT gone.id, gone.queue, gone.tenant, job.rank, attempt, attempt_max, flags, job.options, nonce, worker,
       started_ms, ended_ms, job.max_retries
FROM gone JOIN jobs_job job ON job.id = gone.id

-- name: purge
-- Removes jobs whose retention is over, with all their rows. A job with a pending delivery stays, and one with
-- unresolved dependents, which need to know how it ended. Idempotency keys stay for their whole window.
WITH old AS MATERIALIZED (
    SELECT id, state FROM jobs_done done
    WHERE purge_at_ms <= $1::int8
      AND NOT EXISTS (SELECT FROM jobs_delivery WHERE job = done.id AND state = 0)
      AND NOT EXISTS (SELECT FROM jobs_dependency WHERE on_job = done.id)
    ORDER BY purge_at_ms LIMIT $2::int8 FOR UPDATE SKIP LOCKED
), a AS (
    DELETE FROM jobs_delivery_try
    WHERE delivery IN (SELECT jobs_delivery.id FROM jobs_delivery JOIN old ON old.id = job)
), b AS (DELETE FROM jobs_delivery WHERE job IN (SELECT id FROM old)
), c AS (DELETE FROM jobs_late WHERE id IN (SELECT id FROM old)
), d AS (DELETE FROM jobs_log WHERE id IN (SELECT id FROM old)
), e AS (DELETE FROM jobs_progress WHERE id IN (SELECT id FROM old)
), f AS (DELETE FROM jobs_attempt WHERE id IN (SELECT id FROM old)
), g AS (DELETE FROM jobs_moved WHERE id IN (SELECT id FROM old)
), h AS (DELETE FROM jobs_job WHERE id IN (SELECT id FROM old)
), i AS (DELETE FROM jobs_revival WHERE parent IN (SELECT id FROM old) OR child IN (SELECT id FROM old)
), k AS (UPDATE jobs_key SET ended = old.state FROM old WHERE jobs_key.id = old.id
), gone AS (DELETE FROM jobs_done WHERE id IN (SELECT id FROM old) RETURNING id)
SELECT count(*) FROM gone

-- name: remove
-- Removes ended jobs at once. Those with dependents that have not been told stay.
WITH old AS MATERIALIZED (
    SELECT id, state FROM jobs_done done
    WHERE id = ANY ($1::int8[]) AND NOT EXISTS (SELECT FROM jobs_dependency WHERE on_job = done.id)
    FOR UPDATE
), a AS (
    DELETE FROM jobs_delivery_try
    WHERE delivery IN (SELECT jobs_delivery.id FROM jobs_delivery JOIN old ON old.id = job)
), b AS (DELETE FROM jobs_delivery WHERE job IN (SELECT id FROM old)
), c AS (DELETE FROM jobs_late WHERE id IN (SELECT id FROM old)
), d AS (DELETE FROM jobs_log WHERE id IN (SELECT id FROM old)
), e AS (DELETE FROM jobs_progress WHERE id IN (SELECT id FROM old)
), f AS (DELETE FROM jobs_attempt WHERE id IN (SELECT id FROM old)
), g AS (DELETE FROM jobs_moved WHERE id IN (SELECT id FROM old)
), h AS (DELETE FROM jobs_job WHERE id IN (SELECT id FROM old)
), i AS (DELETE FROM jobs_revival WHERE parent IN (SELECT id FROM old) OR child IN (SELECT id FROM old)
), k AS (UPDATE jobs_key SET ended = old.state FROM old WHERE jobs_key.id = old.id
), gone AS (DELETE FROM jobs_done WHERE id IN (SELECT id FROM old) RETURNING id)
SELECT count(*) FROM gone

-- name: of_queue
SELECT id FROM jobs_done WHERE queue = $1::int4 LIMIT $2::int8
