INSERT INTO jobs_schedule (tenant, name, cron, time_zone, missed, paused, template, next_run_ms, created_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (tenant, name) DO UPDATE SET
    cron = excluded.cron, time_zone = excluded.time_zone, missed = excluded.missed, paused = excluded.paused,
    template = excluded.template, next_run_ms = excluded.next_run_ms
RETURNING tenant, name, cron, time_zone, missed, paused, template, next_run_ms, last_run_ms, created_ms
