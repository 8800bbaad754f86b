INSERT INTO jobs_subscription (tenant, name, filter, cursor, created_ms, advanced_ms)
VALUES ($1, $2, $3, $4, $5, $5)
ON CONFLICT (tenant, name) DO UPDATE SET name = excluded.name
RETURNING tenant, name, filter, cursor, created_ms, advanced_ms
