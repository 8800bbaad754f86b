UPDATE jobs_queue SET settings = $2, version = version + 1 WHERE name = $1
