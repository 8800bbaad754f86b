INSERT INTO jobs_fact AS old (name, value) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET value = greatest(old.value, excluded.value)
