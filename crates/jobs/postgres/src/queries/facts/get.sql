SELECT value FROM jobs_fact WHERE name = $1
