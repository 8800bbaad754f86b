-- Attempts too many, counted in any place.
SELECT 'job ' || id || ' is at attempt ' || attempt || ' of ' || attempt_max
FROM (
    SELECT id, attempt, attempt_max FROM jobs_running UNION ALL SELECT id, attempt, attempt_max FROM jobs_done
    UNION ALL SELECT id, attempt + 1, attempt_max FROM jobs_ready
    UNION ALL SELECT id, attempt + 1, attempt_max FROM jobs_delayed
    UNION ALL SELECT id, attempt + 1, attempt_max FROM jobs_blocked
) place
WHERE attempt > attempt_max
LIMIT 100
