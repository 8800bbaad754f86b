-- name: get
SELECT value FROM room_facts WHERE name = $1

-- name: set
INSERT INTO room_facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: set_once
INSERT INTO room_facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING
