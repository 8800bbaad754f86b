-- Tells dependents of a success; those that wait for nothing more are taken out.
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
