-- Places under concurrency keys: those counted against the jobs that hold them, and against the limit.
SELECT 'key ' || place.key || ' counts ' || place.taken || ' places taken of ' || place.most || ', jobs hold '
       || holders.jobs
FROM jobs_place place
CROSS JOIN LATERAL (
    SELECT count(*) AS jobs FROM jobs_job job
    WHERE job.queue = place.queue AND job.options::json -> 'concurrency' ->> 0 = place.key
      AND (EXISTS (SELECT FROM jobs_running WHERE jobs_running.id = job.id)
           OR EXISTS (SELECT FROM jobs_ready WHERE jobs_ready.id = job.id))
) holders
WHERE place.taken <> holders.jobs
LIMIT 100
