SELECT done.state, running.worker, running.started_ms, running.lease_until_ms, delayed.run_at_ms, delayed.attempt,
       blocked.place, ARRAY(SELECT on_job FROM jobs_dependency WHERE dependent = job.id ORDER BY on_job),
       job.options, job.queue
FROM jobs_job job
LEFT JOIN jobs_running running ON running.id = job.id
LEFT JOIN jobs_done done ON done.id = job.id
LEFT JOIN jobs_delayed delayed ON delayed.id = job.id
LEFT JOIN jobs_blocked blocked ON blocked.id = job.id
WHERE job.id = $1
