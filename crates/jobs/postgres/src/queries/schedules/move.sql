UPDATE jobs_schedule SET next_run_ms = $4, last_run_ms = coalesce($5, last_run_ms)
WHERE tenant = $1 AND name = $2 AND next_run_ms = $3
