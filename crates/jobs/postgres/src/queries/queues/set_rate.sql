UPDATE jobs_queue SET rate_horizon_us = $2 WHERE id = $1
