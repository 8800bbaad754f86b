WITH spot AS MATERIALIZED (
    SELECT job.queue, job.tenant, job.rank, coalesce(moved.pos, job.id) AS pos
    FROM jobs_job job LEFT JOIN jobs_moved moved ON moved.id = job.id
    WHERE job.id = $1
), gone AS (
    DELETE FROM jobs_ready ready USING spot
    WHERE ready.queue = spot.queue AND ready.tenant = spot.tenant AND ready.rank = spot.rank
      AND ready.pos = spot.pos AND ready.id = $1
    RETURNING ready.id, ready.queue, ready.tenant, ready.rank, attempt, attempt_max, flags
)
SELECT gone.id, gone.queue, gone.tenant, gone.rank, attempt, attempt_max, flags, job.options
FROM gone JOIN jobs_job job ON job.id = gone.id
