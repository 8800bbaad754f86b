SELECT tenant, name, cron, time_zone, missed, paused, template, next_run_ms, last_run_ms, created_ms
FROM jobs_schedule WHERE next_run_ms <= $1 AND NOT paused ORDER BY next_run_ms LIMIT $2
