-- Finds the row of a concurrency key, or makes it, with the limit of the newest registration.
INSERT INTO jobs_place (queue, key, most, taken) VALUES ($1, $2, $3, 0)
ON CONFLICT (queue, key) DO UPDATE SET most = excluded.most
RETURNING id
