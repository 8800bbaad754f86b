SELECT number, at_ms, attempt, text FROM jobs_log WHERE id = $1 AND number > $2 ORDER BY number LIMIT $3
