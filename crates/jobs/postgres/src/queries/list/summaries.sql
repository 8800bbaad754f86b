SELECT job.id, job.queue, job.tenant, job.kind, job.rank, job.created_ms, job.max_retries, job.options,
       running.attempt, delayed.run_at_ms, delayed.attempt, done.state, done.attempt, done.ended_ms, done.error,
       blocked.attempt, NULL, NULL, NULL,
       (SELECT attempt FROM jobs_ready ready
        WHERE ready.queue = job.queue AND ready.tenant = job.tenant AND ready.rank = job.rank
          AND ready.pos = coalesce((SELECT pos FROM jobs_moved WHERE jobs_moved.id = job.id), job.id)
          AND ready.id = job.id)
FROM jobs_job job
LEFT JOIN jobs_running running ON running.id = job.id
LEFT JOIN jobs_done done ON done.id = job.id
LEFT JOIN jobs_delayed delayed ON delayed.id = job.id
LEFT JOIN jobs_blocked blocked ON blocked.id = job.id
WHERE job.id = ANY ($1::int8[])
  AND ($2::int4 IS NULL OR job.queue = $2::int4) AND ($3::int4 IS NULL OR job.tenant = $3::int4)
  AND ($4::text IS NULL OR job.kind = $4::text)
  AND ($5::int8 IS NULL OR job.created_ms >= $5::int8) AND ($6::int8 IS NULL OR job.created_ms < $6::int8)
ORDER BY job.id DESC
