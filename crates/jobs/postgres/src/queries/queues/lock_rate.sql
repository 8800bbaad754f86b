SELECT rate_horizon_us FROM jobs_queue WHERE id = $1 FOR UPDATE
