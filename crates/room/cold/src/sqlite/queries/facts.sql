-- name: get
SELECT value FROM facts WHERE name = ?1;

-- name: set
INSERT INTO facts (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value;
