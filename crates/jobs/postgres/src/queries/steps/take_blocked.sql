WITH gone AS (
    DELETE FROM jobs_blocked WHERE id = $1
    RETURNING id, queue, tenant, rank, attempt, attempt_max, flags
), forgotten AS (
    DELETE FROM jobs_dependency WHERE dependent = $1
)
SELECT gone.id, gone.queue, gone.tenant, gone.rank, attempt, attempt_max, flags, job.options
FROM gone JOIN jobs_job job ON job.id = gone.id
