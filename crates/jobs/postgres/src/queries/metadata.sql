-- Values that the store keeps under a name, the clock, and the numbers of servers.

-- name: get
SELECT value FROM jobs_fact WHERE name = $1

-- name: set
INSERT INTO jobs_fact (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: get_or_set
-- The first caller sets the value. The update without effect makes the row of a concurrent caller visible.
INSERT INTO jobs_fact AS old (name, value) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET value = old.value
RETURNING value

-- name: now
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::int8

-- name: server_number
-- Two servers may draw the same number after many starts; the primary key of jobs then makes one of them draw
-- other ids.
SELECT (nextval('jobs_server_number') % $1::int8)::int4
