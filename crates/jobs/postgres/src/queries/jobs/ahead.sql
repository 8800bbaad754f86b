-- Counts the ready jobs of a job's tenant and queue that go before it, up to a bound.
SELECT count(*) FROM (
    SELECT FROM jobs_job job, jobs_ready ready
    WHERE job.id = $1 AND ready.queue = job.queue AND ready.tenant = job.tenant
      AND (ready.rank, ready.pos)
          < (job.rank, coalesce((SELECT pos FROM jobs_moved WHERE jobs_moved.id = job.id), job.id))
    LIMIT $2
) part
