-- Rows of jobs that are not there.
SELECT 'job ' || place.id || ' is in a place but has no row'
FROM (
    SELECT id FROM jobs_ready UNION ALL SELECT id FROM jobs_delayed UNION ALL SELECT id FROM jobs_blocked
    UNION ALL SELECT id FROM jobs_running UNION ALL SELECT id FROM jobs_done
) place
WHERE NOT EXISTS (SELECT FROM jobs_job WHERE jobs_job.id = place.id)
LIMIT 100
