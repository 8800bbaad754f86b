SELECT id FROM jobs_unique WHERE queue = $1 AND tenant = $2 AND key = $3
