SELECT num, name, settings, paused, created_ms, rate_horizon_us, last_claim_ms FROM queues ORDER BY name
