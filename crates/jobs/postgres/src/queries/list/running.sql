SELECT id FROM jobs_running WHERE id < $1 ORDER BY id DESC LIMIT $2
