SELECT number, at_ms, attempt, what, why FROM jobs_late WHERE id = $1 ORDER BY number
