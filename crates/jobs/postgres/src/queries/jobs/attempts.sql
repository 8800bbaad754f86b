SELECT number, worker, started_ms, ended_ms, ending, error FROM jobs_attempt WHERE id = $1 ORDER BY number
