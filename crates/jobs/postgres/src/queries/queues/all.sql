SELECT id, name, settings, paused, created_ms, version, rate_horizon_us, last_claim_ms FROM jobs_queue
