UPDATE queues SET rate_horizon_us = ?2, last_claim_ms = ?3 WHERE num = ?1
