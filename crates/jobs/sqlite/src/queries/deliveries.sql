-- Deliveries of events to webhooks, and their tries.

-- name: insert
INSERT INTO deliveries (
    job, queue, tenant, seq, kind, attempt, webhook, target, state, tries, created_ms, next_try_ms
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?9, 1, 0, ?8, ?8)

-- name: targets
-- Targets after one in the order of tenants and targets, up to a number, and whether each has a due delivery. Skips
-- from target to target instead of scanning each.
WITH RECURSIVE spot (tenant, target, place) AS (
    SELECT * FROM (
        SELECT tenant, target, 1 FROM deliveries
        WHERE state = 1 AND (tenant, target) > (?1, ?2) ORDER BY tenant, target LIMIT 1
    )
    UNION ALL
    SELECT n.tenant, n.target, s.place + 1
    FROM spot s
    JOIN deliveries n ON n.id = (
        SELECT id FROM deliveries
        WHERE state = 1 AND (tenant, target) > (s.tenant, s.target) ORDER BY tenant, target, next_try_ms LIMIT 1
    )
    WHERE s.place < ?4
)
SELECT s.tenant, s.target, EXISTS (
    SELECT 1 FROM deliveries d
    WHERE d.state = 1 AND d.tenant = s.tenant AND d.target = s.target AND d.next_try_ms <= ?3
) FROM spot s

-- name: due
SELECT id, job, queue, tenant, seq, kind, attempt, webhook, target, state, tries, created_ms, next_try_ms
FROM deliveries WHERE state = 1 AND tenant = ?1 AND target = ?2 AND next_try_ms <= ?3
ORDER BY next_try_ms, id LIMIT ?4

-- name: put_off
UPDATE deliveries SET next_try_ms = ?2 WHERE id = ?1 AND tries = ?3 AND state = 1

-- name: report
UPDATE deliveries SET state = ?2, tries = ?3, next_try_ms = ?4 WHERE id = ?1

-- name: list
SELECT id, job, queue, tenant, seq, kind, attempt, webhook, target, state, tries, created_ms, next_try_ms
FROM deliveries
WHERE id < ?1 AND (?2 IS NULL OR tenant = ?2) AND (?3 IS NULL OR queue = ?3) AND (?4 IS NULL OR job = ?4)
    AND (?5 IS NULL OR state = ?5) AND (?6 IS NULL OR created_ms >= ?6) AND (?8 IS NULL OR id = ?8)
ORDER BY id DESC
LIMIT ?7

-- name: of_job
SELECT id, job, queue, tenant, seq, kind, attempt, webhook, target, state, tries, created_ms, next_try_ms
FROM deliveries WHERE job = ?1 ORDER BY id

-- name: replay
UPDATE deliveries SET state = 1, next_try_ms = ?6
WHERE id IN (
    SELECT id FROM deliveries
    WHERE (?1 IS NULL OR tenant = ?1) AND (?2 IS NULL OR queue = ?2) AND (?3 IS NULL OR job = ?3)
        AND (?4 IS NULL OR state = ?4) AND (?5 IS NULL OR created_ms >= ?5) AND (?8 IS NULL OR id = ?8)
    ORDER BY id
    LIMIT ?7
)

-- name: next
SELECT min(next_try_ms) FROM deliveries WHERE state = 1

-- name: count_tries
SELECT tries FROM deliveries WHERE id = ?1

-- name: insert_try
INSERT INTO delivery_tries (delivery, number, at_ms, latency_ms, status, error, reply)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)

-- name: tries
SELECT number, at_ms, latency_ms, status, error, reply FROM delivery_tries WHERE delivery = ?1 ORDER BY number

-- name: delete_of_job
DELETE FROM deliveries WHERE job = ?1

-- name: delete_tries_of_job
DELETE FROM delivery_tries WHERE delivery IN (SELECT id FROM deliveries WHERE job = ?1)
