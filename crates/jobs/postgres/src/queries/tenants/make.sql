INSERT INTO jobs_tenant (name, created_ms) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET name = excluded.name
RETURNING id, name, weight, created_ms
