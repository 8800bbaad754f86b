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
