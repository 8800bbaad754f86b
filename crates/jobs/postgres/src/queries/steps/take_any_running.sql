WITH gone AS (
    DELETE FROM jobs_running WHERE id = $1
    RETURNING id, queue, tenant, rank, attempt, attempt_max, flags, nonce, worker, started_ms
)
SELECT gone.id, gone.queue, gone.tenant, gone.rank, attempt, attempt_max, flags, job.options, nonce, worker,
       started_ms
FROM gone JOIN jobs_job job ON job.id = gone.id
