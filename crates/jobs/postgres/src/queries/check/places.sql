-- Jobs that are in no place, or in several.
SELECT 'job ' || job.id || ' is in ' || count(place.id) || ' places'
FROM jobs_job job
LEFT JOIN (
    SELECT id FROM jobs_ready UNION ALL SELECT id FROM jobs_delayed UNION ALL SELECT id FROM jobs_blocked
    UNION ALL SELECT id FROM jobs_running UNION ALL SELECT id FROM jobs_done
) place ON place.id = job.id
GROUP BY job.id HAVING count(place.id) <> 1
LIMIT 100
