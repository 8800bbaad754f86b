-- Takes a unique key, or tells who holds it.
INSERT INTO jobs_unique (queue, tenant, key, id) VALUES ($1, $2, $3, $4)
ON CONFLICT (queue, tenant, key) DO UPDATE SET key = excluded.key
RETURNING id
