-- Whoever comes first sets it; the update that changes nothing makes a rival's row visible.
INSERT INTO jobs_fact AS old (name, value) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET value = old.value
RETURNING value
