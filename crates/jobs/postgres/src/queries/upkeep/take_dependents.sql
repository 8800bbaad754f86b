-- Takes out the jobs that wait for one that did not succeed.
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
