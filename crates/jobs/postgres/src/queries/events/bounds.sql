SELECT (SELECT value FROM jobs_fact WHERE name = $1), coalesce((SELECT max(seq) FROM jobs_event), 0)
