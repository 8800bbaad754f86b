SELECT id FROM jobs_done WHERE state <> 4 AND id < $1 ORDER BY id DESC LIMIT $2
