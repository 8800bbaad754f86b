-- Queues, the depth of each, and how many jobs have passed through.

-- name: all
SELECT id, name, settings, paused, created_ms, version, rate_horizon_us, last_claim_ms, gone
FROM jobs_queue

-- name: find_or_insert
-- Finds or inserts a queue, or makes a deleted one come back. An update without effect makes the row of a
-- concurrent caller visible.
INSERT INTO jobs_queue AS known (name, settings, created_ms) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET
    version = known.version + CASE WHEN known.gone THEN 1 ELSE 0 END,
    created_ms = CASE WHEN known.gone THEN excluded.created_ms ELSE known.created_ms END, gone = false
RETURNING id, name, settings, paused, created_ms, version, rate_horizon_us, last_claim_ms, gone

-- name: open_jobs
-- Counts jobs of a queue that have not ended, up to a bound.
SELECT count(*) FROM (
    (SELECT FROM jobs_ready WHERE queue = $1::int4 LIMIT $2::int8)
    UNION ALL (SELECT FROM jobs_delayed WHERE queue = $1::int4 LIMIT $2::int8)
    UNION ALL (SELECT FROM jobs_blocked WHERE queue = $1::int4 LIMIT $2::int8)
    UNION ALL (SELECT FROM jobs_running WHERE queue = $1::int4 LIMIT $2::int8)
) part

-- name: delete
WITH counters AS (DELETE FROM jobs_throughput WHERE queue = $1::int4
), deltas AS (DELETE FROM jobs_throughput_delta WHERE queue = $1::int4
), passed AS (DELETE FROM jobs_passed WHERE queue = $1::int4)
UPDATE jobs_queue SET gone = true, settings = $2::text, paused = false, rate_horizon_us = 0, last_claim_ms = NULL,
    version = version + 1
WHERE id = $1::int4

-- name: set_settings
UPDATE jobs_queue SET settings = $2, version = version + 1 WHERE name = $1

-- name: set_paused
UPDATE jobs_queue SET paused = $2, version = version + 1 WHERE name = $1

-- name: set_claims
-- A locked row is skipped: the next claim is recorded.
UPDATE jobs_queue SET last_claim_ms = greatest(coalesce(last_claim_ms, 0), one.at_ms)
FROM (
    SELECT queue.id, given.at_ms
    FROM unnest($1::int4[], $2::int8[]) AS given (queue, at_ms) JOIN jobs_queue queue ON queue.id = given.queue
    ORDER BY queue.id FOR NO KEY UPDATE OF queue SKIP LOCKED
) one
WHERE jobs_queue.id = one.id

-- name: lock_rate
SELECT rate_horizon_us FROM jobs_queue WHERE id = $1 FOR UPDATE

-- name: set_rate
UPDATE jobs_queue SET rate_horizon_us = $2 WHERE id = $1

-- name: unstarted
-- Counts jobs of a queue that have not started, up to a bound.
SELECT count(*) FROM (
    (SELECT FROM jobs_ready WHERE queue = $1::int4 LIMIT $2::int8)
    UNION ALL (SELECT FROM jobs_delayed WHERE queue = $1::int4 LIMIT $2::int8)
    UNION ALL (SELECT FROM jobs_blocked WHERE queue = $1::int4 LIMIT $2::int8)
) part

-- name: depths
-- Jobs of queues by table, ready ones up to a bound, and when the first ready one was registered. Of one tenant
-- ($3), or of all.
SELECT queue.id,
       (SELECT count(*) FROM jobs_delayed
        WHERE jobs_delayed.queue = queue.id AND ($3::int4 IS NULL OR tenant = $3::int4)),
       (SELECT count(*) FROM (
            SELECT FROM jobs_ready
            WHERE jobs_ready.queue = queue.id AND ($3::int4 IS NULL OR tenant = $3::int4) LIMIT $2::int8) part),
       (SELECT count(*) FROM jobs_blocked
        WHERE jobs_blocked.queue = queue.id AND ($3::int4 IS NULL OR tenant = $3::int4)),
       (SELECT count(*) FROM jobs_running
        WHERE jobs_running.queue = queue.id AND ($3::int4 IS NULL OR tenant = $3::int4)),
       (SELECT min(job.created_ms)
        FROM (SELECT DISTINCT tenant, rank FROM
                (SELECT tenant, rank FROM jobs_ready
                 WHERE jobs_ready.queue = queue.id AND ($3::int4 IS NULL OR tenant = $3::int4)
                 LIMIT $2::int8) part) party
        CROSS JOIN LATERAL (
            SELECT id FROM jobs_ready ready
            WHERE ready.queue = queue.id AND ready.tenant = party.tenant AND ready.rank = party.rank
            ORDER BY pos LIMIT 1
        ) first
        JOIN jobs_job job ON job.id = first.id)
FROM unnest($1::int4[]) AS queue (id)

-- name: ended
SELECT queue, state, count(*) FROM jobs_done
WHERE queue = ANY ($1::int4[]) AND ($2::int4 IS NULL OR tenant = $2::int4) GROUP BY queue, state

-- name: of_tenant
-- The queues that a tenant has had jobs in.
SELECT queue FROM jobs_throughput WHERE tenant = $1::int4
UNION
SELECT queue FROM jobs_throughput_delta WHERE tenant = $1::int4

-- name: throughput
-- What passed, of one tenant ($2) or of all. Servers of an older version counted without tenants.
SELECT queue, sum(enqueued)::int8, sum(started)::int8, sum(succeeded)::int8, sum(failed)::int8,
       sum(cancelled)::int8, sum(attempts_failed)::int8, sum(leases_lost)::int8, sum(late_reports)::int8
FROM (
    SELECT * FROM jobs_throughput UNION ALL SELECT * FROM jobs_throughput_delta
    UNION ALL
    SELECT queue, NULL, enqueued, started, succeeded, failed, cancelled, attempts_failed, leases_lost, late_reports
    FROM jobs_passed
) part
WHERE queue = ANY ($1::int4[]) AND ($2::int4 IS NULL OR tenant = $2::int4) GROUP BY queue

-- name: add_throughput
INSERT INTO jobs_throughput_delta (queue, tenant, enqueued, started, succeeded, failed, cancelled, attempts_failed,
                                   leases_lost)
SELECT * FROM unnest($1::int4[], $2::int4[], $3::int8[], $4::int8[], $5::int8[], $6::int8[], $7::int8[], $8::int8[],
                     $9::int8[])

-- name: fold_throughput
-- Adds up what was counted since the last time, up to a number of rows.
WITH part AS (
    DELETE FROM jobs_throughput_delta
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM jobs_throughput_delta LIMIT $1::int8 FOR UPDATE SKIP LOCKED))
    RETURNING *
)
INSERT INTO jobs_throughput AS known (queue, tenant, enqueued, started, succeeded, failed, cancelled,
                                      attempts_failed, leases_lost, late_reports)
SELECT queue, tenant, sum(enqueued), sum(started), sum(succeeded), sum(failed), sum(cancelled),
       sum(attempts_failed), sum(leases_lost), sum(late_reports)
FROM part GROUP BY queue, tenant ORDER BY queue, tenant
ON CONFLICT (queue, tenant) DO UPDATE SET
    enqueued = known.enqueued + excluded.enqueued,
    started = known.started + excluded.started,
    succeeded = known.succeeded + excluded.succeeded,
    failed = known.failed + excluded.failed,
    cancelled = known.cancelled + excluded.cancelled,
    attempts_failed = known.attempts_failed + excluded.attempts_failed,
    leases_lost = known.leases_lost + excluded.leases_lost,
    late_reports = known.late_reports + excluded.late_reports
