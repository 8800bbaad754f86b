UPDATE jobs_queue SET paused = $2, version = version + 1 WHERE name = $1
