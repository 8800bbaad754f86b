-- Concurrency keys: their slots, and the jobs that wait for one.

-- name: find_or_insert
-- Finds or inserts the row of a concurrency key. An existing limit stays: only a registration changes it.
INSERT INTO jobs_place (queue, key, most, taken) VALUES ($1, $2, $3, 0)
ON CONFLICT (queue, key) DO UPDATE SET key = excluded.key
RETURNING id

-- name: set_limit
-- Finds or inserts the row of a concurrency key, with the limit of the newest registration.
INSERT INTO jobs_place (queue, key, most, taken) VALUES ($1, $2, $3, 0)
ON CONFLICT (queue, key) DO UPDATE SET most = excluded.most
RETURNING id

-- name: grant
-- Releases $2::int4 slots of a key and grants the free ones to waiting jobs, in order.
WITH place AS MATERIALIZED (
    SELECT id, greatest(taken - $2::int4, 0) AS taken, most FROM jobs_place WHERE id = $1::int8 FOR UPDATE
), freed AS (
    DELETE FROM jobs_blocked
    WHERE id IN (
        SELECT id FROM jobs_blocked WHERE place = $1::int8
        ORDER BY pos LIMIT (SELECT greatest(most - taken, 0) FROM place)
    )
    RETURNING id, queue, tenant, rank, attempt, attempt_max, flags, pos
), counted AS (
    UPDATE jobs_place SET taken = place.taken + (SELECT count(*) FROM freed)
    FROM place WHERE jobs_place.id = place.id
)
SELECT freed.id, freed.queue, freed.tenant, freed.rank, attempt, attempt_max, flags, job.options
FROM freed CROSS JOIN LATERAL (SELECT options FROM jobs_job WHERE jobs_job.id = freed.id OFFSET 0) job
ORDER BY freed.pos

-- name: explain
SELECT most, taken, (
    SELECT count(*) FROM jobs_blocked
    WHERE place = $1 AND pos < (SELECT pos FROM jobs_blocked WHERE jobs_blocked.id = $2)
)
FROM jobs_place WHERE jobs_place.id = $1
