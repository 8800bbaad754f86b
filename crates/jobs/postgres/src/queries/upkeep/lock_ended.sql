-- Endings that others wait for, with how they ended; nothing for a job that runs again.
SELECT resolve.id, (SELECT state FROM jobs_done WHERE jobs_done.id = resolve.id)
FROM jobs_resolve resolve ORDER BY resolve.id LIMIT $1 FOR UPDATE SKIP LOCKED
