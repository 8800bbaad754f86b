-- Schedules.

-- name: put
INSERT INTO jobs_schedule (tenant, name, cron, time_zone, missed, paused, template, next_run_ms, created_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (tenant, name) DO UPDATE SET
    cron = excluded.cron, time_zone = excluded.time_zone, missed = excluded.missed, paused = excluded.paused,
    template = excluded.template, next_run_ms = excluded.next_run_ms
RETURNING tenant, name, cron, time_zone, missed, paused, template, next_run_ms, last_run_ms, refused_ms, refused,
    created_ms

-- name: list
SELECT schedule.tenant, schedule.name, cron, time_zone, missed, paused, template, next_run_ms, last_run_ms,
       refused_ms, refused, schedule.created_ms
FROM jobs_schedule schedule JOIN jobs_tenant tenant ON tenant.id = schedule.tenant
WHERE $1::text IS NULL OR tenant.name = $1::text
ORDER BY tenant.name, schedule.name

-- name: due
SELECT tenant, name, cron, time_zone, missed, paused, template, next_run_ms, last_run_ms, refused_ms, refused,
    created_ms
FROM jobs_schedule WHERE next_run_ms <= $1 AND NOT paused ORDER BY next_run_ms LIMIT $2

-- name: move
UPDATE jobs_schedule SET next_run_ms = $4, last_run_ms = coalesce($5, last_run_ms)
WHERE tenant = $1 AND name = $2 AND next_run_ms = $3

-- name: refuse
UPDATE jobs_schedule SET refused_ms = $3, refused = $4 WHERE tenant = $1 AND name = $2

-- name: delete
DELETE FROM jobs_schedule WHERE tenant = (SELECT id FROM jobs_tenant WHERE name = $1) AND name = $2
