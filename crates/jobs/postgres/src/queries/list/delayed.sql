SELECT id FROM jobs_delayed WHERE id < $1 ORDER BY id DESC LIMIT $2
