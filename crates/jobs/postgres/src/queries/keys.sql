-- Idempotency keys and unique keys.

-- name: find_idempotency
SELECT id, expires_ms > $4, fingerprint, ended FROM jobs_key WHERE queue = $1 AND tenant = $2 AND key = $3

-- name: purge_idempotency
WITH old AS MATERIALIZED (
    SELECT queue, tenant, key FROM jobs_key WHERE expires_ms <= $1::int8
    ORDER BY expires_ms LIMIT $2::int8 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM jobs_key USING old
    WHERE jobs_key.queue = old.queue AND jobs_key.tenant = old.tenant AND jobs_key.key = old.key
    RETURNING 1
), unused AS (
    DELETE FROM jobs_place
    WHERE taken = 0 AND NOT EXISTS (SELECT FROM jobs_blocked WHERE place = jobs_place.id)
)
SELECT count(*) FROM gone

-- name: find_unique
SELECT id FROM jobs_unique WHERE queue = $1 AND tenant = $2 AND key = $3

-- name: is_unique_taken
-- Whether another job holds the unique key of a job.
SELECT EXISTS (
    SELECT FROM jobs_job job
    JOIN jobs_unique held ON held.queue = job.queue AND held.tenant = job.tenant AND held.key = $2::text
    WHERE job.id = $1::int8 AND held.id <> job.id
)

-- name: hold_unique
-- Takes a unique key, or returns its holder.
INSERT INTO jobs_unique (queue, tenant, key, id) VALUES ($1, $2, $3, $4)
ON CONFLICT (queue, tenant, key) DO UPDATE SET key = excluded.key
RETURNING id

-- name: move_unique
-- Takes a unique key along to another queue, unless it is held there.
UPDATE jobs_unique mine SET queue = $2::int4
WHERE id = $1::int8 AND NOT EXISTS (
    SELECT FROM jobs_unique held WHERE held.queue = $2::int4 AND held.tenant = mine.tenant AND held.key = mine.key
)

-- name: delete_unique
DELETE FROM jobs_unique WHERE id = ANY ($1::int8[])
