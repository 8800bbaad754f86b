-- Queues, the depth of each, and how many jobs have passed through.

-- name: all
SELECT id, name, settings, paused, created_ms, version, rate_horizon_us, last_claim_ms FROM jobs_queue

-- name: find_or_insert
-- Finds or inserts a queue. The update without effect makes the row of a concurrent caller visible.
INSERT INTO jobs_queue (name, settings, created_ms) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET name = excluded.name
RETURNING id, name, settings, paused, created_ms, version, rate_horizon_us, last_claim_ms

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
-- Jobs of queues by table, ready ones up to a bound, and when the first ready one was registered.
SELECT queue.id,
       (SELECT count(*) FROM jobs_delayed WHERE jobs_delayed.queue = queue.id),
       (SELECT count(*) FROM (SELECT FROM jobs_ready WHERE jobs_ready.queue = queue.id LIMIT $2::int8) part),
       (SELECT count(*) FROM jobs_blocked WHERE jobs_blocked.queue = queue.id),
       (SELECT count(*) FROM jobs_running WHERE jobs_running.queue = queue.id),
       (SELECT min(job.created_ms)
        FROM (SELECT DISTINCT tenant, rank FROM
                (SELECT tenant, rank FROM jobs_ready WHERE jobs_ready.queue = queue.id LIMIT $2::int8) part) party
        CROSS JOIN LATERAL (
            SELECT id FROM jobs_ready ready
            WHERE ready.queue = queue.id AND ready.tenant = party.tenant AND ready.rank = party.rank
            ORDER BY pos LIMIT 1
        ) first
        JOIN jobs_job job ON job.id = first.id)
FROM unnest($1::int4[]) AS queue (id)

-- name: ended
SELECT queue, state, count(*) FROM jobs_done WHERE queue = ANY ($1::int4[]) GROUP BY queue, state

-- name: throughput
SELECT queue, sum(enqueued)::int8, sum(started)::int8, sum(succeeded)::int8, sum(failed)::int8,
       sum(cancelled)::int8, sum(attempts_failed)::int8, sum(leases_lost)::int8, sum(late_reports)::int8
FROM jobs_passed WHERE queue = ANY ($1::int4[]) GROUP BY queue

-- name: add_throughput
INSERT INTO jobs_passed AS passed (queue, server, enqueued, started, succeeded, failed, cancelled, attempts_failed,
                                   leases_lost, late_reports)
SELECT queue, $1, enqueued, started, succeeded, failed, cancelled, attempts_failed, leases_lost, late_reports
FROM unnest($2::int4[], $3::int8[], $4::int8[], $5::int8[], $6::int8[], $7::int8[], $8::int8[], $9::int8[],
            $10::int8[])
    AS one (queue, enqueued, started, succeeded, failed, cancelled, attempts_failed, leases_lost, late_reports)
ON CONFLICT (queue, server) DO UPDATE SET
    enqueued = passed.enqueued + excluded.enqueued,
    started = passed.started + excluded.started,
    succeeded = passed.succeeded + excluded.succeeded,
    failed = passed.failed + excluded.failed,
    cancelled = passed.cancelled + excluded.cancelled,
    attempts_failed = passed.attempts_failed + excluded.attempts_failed,
    leases_lost = passed.leases_lost + excluded.leases_lost,
    late_reports = passed.late_reports + excluded.late_reports
