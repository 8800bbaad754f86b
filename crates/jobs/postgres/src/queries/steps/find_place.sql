-- Finds the row of a concurrency key, or makes it. An existing limit stays: only a registration changes it.
INSERT INTO jobs_place (queue, key, most, taken) VALUES ($1, $2, $3, 0)
ON CONFLICT (queue, key) DO UPDATE SET key = excluded.key
RETURNING id
