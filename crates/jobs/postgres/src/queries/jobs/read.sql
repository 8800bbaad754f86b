SELECT job.id, job.queue, job.tenant, job.kind, job.rank, job.created_ms, job.max_retries, job.options,
       running.attempt, delayed.run_at_ms, delayed.attempt, done.state, done.attempt, done.ended_ms, done.error,
       blocked.attempt, job.content_type, job.payload, job.lease_ms,
       (SELECT attempt FROM jobs_ready ready
        WHERE ready.queue = job.queue AND ready.tenant = job.tenant AND ready.rank = job.rank
          AND ready.pos = coalesce((SELECT pos FROM jobs_moved WHERE jobs_moved.id = job.id), job.id)
          AND ready.id = job.id),
       running.worker, running.started_ms, running.lease_until_ms, done.content_type, done.result,
       done.purge_at_ms, done.worker, done.started_ms, NULL,
       coalesce((SELECT max(number) FROM jobs_log WHERE jobs_log.id = job.id), 0),
       ARRAY(SELECT on_job FROM jobs_dependency WHERE dependent = job.id ORDER BY on_job)
FROM jobs_job job
LEFT JOIN jobs_running running ON running.id = job.id
LEFT JOIN jobs_done done ON done.id = job.id
LEFT JOIN jobs_delayed delayed ON delayed.id = job.id
LEFT JOIN jobs_blocked blocked ON blocked.id = job.id
WHERE job.id = ANY ($1::int8[])
