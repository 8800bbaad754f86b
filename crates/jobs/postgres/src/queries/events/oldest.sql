SELECT seq, at_ms FROM jobs_event ORDER BY seq LIMIT $1
