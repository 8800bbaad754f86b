SELECT id, expires_ms > $4 FROM jobs_key WHERE queue = $1 AND tenant = $2 AND key = $3
