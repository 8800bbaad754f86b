SELECT per_mille, message, data, at_ms FROM jobs_progress WHERE id = $1
