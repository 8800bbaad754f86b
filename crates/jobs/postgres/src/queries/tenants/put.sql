INSERT INTO jobs_tenant (name, weight, created_ms) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET weight = excluded.weight
