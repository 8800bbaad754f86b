-- Queues, and the counters of their jobs by tenant.

-- name: all
SELECT num, name, settings, paused, created_ms, rate_horizon_us, last_claim_ms, gone FROM queues ORDER BY name

-- name: insert
INSERT INTO queues (name, settings, created_ms) VALUES (?1, ?2, ?3)

-- name: set_settings
UPDATE queues SET settings = ?2 WHERE num = ?1

-- name: set_paused
UPDATE queues SET paused = ?2 WHERE num = ?1

-- name: delete
UPDATE queues SET gone = 1, settings = ?2, paused = 0, rate_horizon_us = 0, last_claim_ms = NULL WHERE num = ?1

-- name: delete_counters
DELETE FROM counters WHERE queue = ?1

-- name: come_back
UPDATE queues SET gone = 0, created_ms = ?2 WHERE num = ?1

-- name: set_claim
UPDATE queues SET rate_horizon_us = ?2, last_claim_ms = ?3 WHERE num = ?1

-- name: oldest_ready
-- The lowest position of each tenant and rank; skips from group to group instead of scanning each.
WITH RECURSIVE spot (tenant, rank, pos) AS (
    SELECT * FROM (
        SELECT tenant, rank, pos FROM ready WHERE queue = ?1 AND tenant >= ?2 ORDER BY tenant, rank, pos LIMIT 1
    )
    UNION ALL
    SELECT n.tenant, n.rank, n.pos
    FROM spot s
    JOIN ready n ON n.queue = ?1 AND (n.tenant, n.rank, n.pos) = (
        SELECT tenant, rank, pos FROM ready
        WHERE queue = ?1 AND tenant <= ?3 AND (tenant, rank) > (s.tenant, s.rank)
        ORDER BY tenant, rank, pos LIMIT 1
    )
)
SELECT min(pos) FROM spot WHERE tenant <= ?3

-- name: counters
SELECT queue, tenant, scheduled, ready, blocked, running, succeeded, failed, cancelled, passed_enqueued, passed_started,
    passed_succeeded, passed_failed, passed_cancelled, passed_attempts_failed, passed_leases_lost, passed_late_reports
FROM counters

-- name: counters_of_queue
SELECT sum(scheduled), sum(ready), sum(blocked), sum(running), sum(succeeded), sum(failed), sum(cancelled), sum(passed_enqueued), sum(passed_started), sum(passed_succeeded), sum(passed_failed), sum(passed_cancelled), sum(passed_attempts_failed), sum(passed_leases_lost), sum(passed_late_reports)
FROM counters WHERE queue = ?1 AND (?2 IS NULL OR tenant = ?2)

-- name: has_tenant
SELECT EXISTS (SELECT 1 FROM counters WHERE queue = ?1 AND tenant = ?2)

-- name: put_counters
INSERT OR REPLACE INTO counters (
    queue, tenant, scheduled, ready, blocked, running, succeeded, failed, cancelled, passed_enqueued, passed_started,
    passed_succeeded, passed_failed, passed_cancelled, passed_attempts_failed, passed_leases_lost, passed_late_reports
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
