-- Jobs that a worker holds under a lease.

-- name: complete
-- Ends jobs as succeeded that have no special flags, of queues in $7 (kept for $8). The fence is written so
-- that only a lookup by key is possible. Ids are distinct and in order, and so are the queues: width_bucket finds the
-- place of one by a binary search. Jobs missing in the result were not ended here.
WITH gone AS (
    DELETE FROM jobs_running
    WHERE id = ANY ($2::int8[]) AND nonce = ($3::int8[])[width_bucket(id, $2::int8[])]
      AND attempt = ($4::int4[])[width_bucket(id, $2::int8[])] AND flags & $9::int2 = 0 AND queue = ANY ($7::int4[])
    RETURNING id, queue, tenant, attempt, attempt_max, flags, nonce, worker, started_ms,
              width_bucket(id, $2::int8[]) AS place
), ended AS (
    INSERT INTO jobs_done (id, queue, tenant, state, attempt, attempt_max, flags, nonce, worker, started_ms,
                           ended_ms, content_type, result, purge_at_ms)
    SELECT id, queue, tenant, 4, attempt, attempt_max, flags, nonce, worker, started_ms, $1::int8,
           ($5::text[])[place], ($6::bytea[])[place], $1::int8 + ($8::int8[])[width_bucket(queue, $7::int4[])]
    FROM gone
    RETURNING id
), told AS (
    INSERT INTO jobs_resolve (id)
    SELECT DISTINCT on_job FROM jobs_dependency WHERE on_job = ANY (ARRAY(SELECT id FROM ended))
    ON CONFLICT DO NOTHING
    RETURNING id
), counted AS (
    INSERT INTO jobs_throughput_delta (queue, tenant, succeeded)
    SELECT queue, tenant, count(*) FROM gone GROUP BY queue, tenant
), gate AS MATERIALIZED (
    SELECT pg_advisory_xact_lock(7953761907321733121)
    FROM (SELECT count(*) AS jobs FROM ended) a, (SELECT count(*) FROM told) b
    WHERE jobs > 0
), logged AS (
    INSERT INTO jobs_event (seq, kind, job, queue, tenant, attempt, at_ms)
    SELECT nextval('jobs_event_seq'), 5, id, queue, tenant, attempt, $1::int8
    FROM (SELECT gone.* FROM gate, gone ORDER BY gone.place) one
    RETURNING seq
)
SELECT id, queue, (SELECT max(seq) FROM logged), (SELECT count(*) FROM told) FROM gone

-- name: shift_back
-- A lease that was renewed after now ($1) was so by a clock that has been set back since: it ends as long from now
-- as it did from then.
UPDATE jobs_running SET lease_until_ms = $1::int8 + lease_until_ms - renewed_ms, renewed_ms = $1::int8
WHERE renewed_ms > $1::int8 + $2::int8

-- name: grace
-- Leases that seem to have ended while nobody could be asked for more time, or because the clock was set ahead,
-- get their own length, up to $2.
UPDATE jobs_running SET lease_until_ms = $1::int8 + least(lease_ms, $2::int8), renewed_ms = $1::int8
WHERE lease_until_ms <= $1::int8

-- name: set_alive
INSERT INTO jobs_alive (at_ms) VALUES ($1::int8) ON CONFLICT (one) DO UPDATE SET at_ms = excluded.at_ms

-- name: alive
SELECT at_ms FROM jobs_alive

-- name: extend
-- Ids are distinct and in order. A length of NULL is the lease's own.
UPDATE jobs_running
SET lease_until_ms = greatest(
        lease_until_ms, $1::int8 + coalesce(($5::int8[])[width_bucket(id, $2::int8[])], lease_ms)
    ),
    renewed_ms = $1::int8
WHERE id = ANY ($2::int8[]) AND nonce = ($3::int8[])[width_bucket(id, $2::int8[])]
  AND attempt = ($4::int4[])[width_bucket(id, $2::int8[])]
RETURNING id, lease_until_ms

-- name: leases
SELECT id, attempt, nonce FROM jobs_running WHERE id = ANY ($1::int8[])

-- name: take_leased
-- Ids are distinct and in order.
WITH gone AS (
    DELETE FROM jobs_running
    WHERE id = ANY ($1::int8[]) AND nonce = ($2::int8[])[width_bucket(id, $1::int8[])]
      AND attempt = ($3::int4[])[width_bucket(id, $1::int8[])]
    RETURNING id, queue, tenant, rank, attempt, attempt_max, flags, nonce, worker, started_ms
)
SELECT gone.id, gone.queue, gone.tenant, gone.rank, attempt, attempt_max, flags, job.options, nonce, worker,
       started_ms
FROM gone CROSS JOIN LATERAL (SELECT options FROM jobs_job WHERE jobs_job.id = gone.id OFFSET 0) job

-- name: take
WITH gone AS (
    DELETE FROM jobs_running WHERE id = $1
    RETURNING id, queue, tenant, rank, attempt, attempt_max, flags, nonce, worker, started_ms
)
SELECT gone.id, gone.queue, gone.tenant, gone.rank, attempt, attempt_max, flags, job.options, nonce, worker,
       started_ms
FROM gone JOIN jobs_job job ON job.id = gone.id

-- name: take_expired
WITH late AS MATERIALIZED (
    SELECT id FROM jobs_running WHERE lease_until_ms <= $1::int8
    ORDER BY lease_until_ms, id LIMIT $2::int8 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM jobs_running WHERE id = ANY (ARRAY(SELECT id FROM late))
    RETURNING id, queue, tenant, rank, attempt, attempt_max, flags, nonce, worker, started_ms, lease_until_ms
)
SELECT gone.id, gone.queue, gone.tenant, gone.rank, attempt, attempt_max, flags, job.options, nonce, worker,
       started_ms
FROM gone CROSS JOIN LATERAL (SELECT options FROM jobs_job WHERE jobs_job.id = gone.id OFFSET 0) job
ORDER BY gone.lease_until_ms, gone.id
