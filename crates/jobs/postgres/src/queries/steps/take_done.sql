-- Takes a job out of the ended ones; whoever waited for its ending waits for the next.
WITH gone AS (
    DELETE FROM jobs_done WHERE id = $1
    RETURNING id, queue, tenant, attempt, attempt_max, flags, nonce, worker, started_ms, ended_ms
), unresolved AS (
    DELETE FROM jobs_resolve WHERE id = $1
)
SELECT gone.id, gone.queue, gone.tenant, job.rank, attempt, attempt_max, flags, job.options, nonce, worker,
       started_ms, ended_ms, job.max_retries
FROM gone JOIN jobs_job job ON job.id = gone.id
