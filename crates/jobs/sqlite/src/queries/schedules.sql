-- Schedules.

-- name: put
INSERT INTO schedules (tenant, name, cron, time_zone, missed, paused, template, next_run_ms, created_ms)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (tenant, name) DO UPDATE
SET cron = excluded.cron, time_zone = excluded.time_zone, missed = excluded.missed, paused = excluded.paused,
    template = excluded.template, next_run_ms = excluded.next_run_ms

-- name: find
SELECT t.name, s.name, s.cron, s.time_zone, s.missed, s.paused, s.template, s.next_run_ms, s.last_run_ms, s.refused_ms,
    s.refused, s.created_ms
FROM schedules s JOIN tenants t ON t.num = s.tenant
WHERE s.tenant = ?1 AND s.name = ?2

-- name: list
SELECT t.name, s.name, s.cron, s.time_zone, s.missed, s.paused, s.template, s.next_run_ms, s.last_run_ms, s.refused_ms,
    s.refused, s.created_ms
FROM schedules s JOIN tenants t ON t.num = s.tenant
WHERE ?1 IS NULL OR t.name = ?1
ORDER BY t.name, s.name

-- name: due
SELECT t.name, s.name, s.cron, s.time_zone, s.missed, s.paused, s.template, s.next_run_ms, s.last_run_ms, s.refused_ms,
    s.refused, s.created_ms
FROM schedules s JOIN tenants t ON t.num = s.tenant
WHERE s.next_run_ms <= ?1
ORDER BY s.next_run_ms, t.name, s.name
LIMIT ?2

-- name: move
UPDATE schedules SET next_run_ms = ?4, last_run_ms = coalesce(?5, last_run_ms)
WHERE tenant = ?1 AND name = ?2 AND next_run_ms = ?3

-- name: refuse
UPDATE schedules SET refused_ms = ?3, refused = ?4 WHERE tenant = ?1 AND name = ?2

-- name: delete
DELETE FROM schedules WHERE tenant = ?1 AND name = ?2

-- name: next
SELECT min(next_run_ms) FROM schedules WHERE next_run_ms IS NOT NULL
