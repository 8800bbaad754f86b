WITH late AS MATERIALIZED (
    SELECT id FROM jobs_running WHERE lease_until_ms <= $1::int8
    ORDER BY lease_until_ms, id LIMIT $2::int8 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM jobs_running WHERE id = ANY (ARRAY(SELECT id FROM late))
    RETURNING id, queue, tenant, rank, attempt, attempt_max, flags, nonce, worker, started_ms, lease_until_ms
)
SELECT gone.id, gone.queue, gone.tenant, gone.rank, attempt, attempt_max, flags, job.options, nonce, worker,
       started_ms
FROM gone CROSS JOIN LATERAL (SELECT options FROM jobs_job WHERE jobs_job.id = gone.id OFFSET 0) job
ORDER BY gone.lease_until_ms, gone.id
