-- Finds a queue by name or makes it. The update that changes nothing makes the row of a rival visible.
INSERT INTO jobs_queue (name, settings, created_ms) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET name = excluded.name
RETURNING id, name, settings, paused, created_ms, version, rate_horizon_us, last_claim_ms
