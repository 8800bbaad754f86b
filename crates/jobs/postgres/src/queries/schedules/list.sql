SELECT schedule.tenant, schedule.name, cron, time_zone, missed, paused, template, next_run_ms, last_run_ms,
       schedule.created_ms
FROM jobs_schedule schedule JOIN jobs_tenant tenant ON tenant.id = schedule.tenant
WHERE $1::text IS NULL OR tenant.name = $1::text
ORDER BY tenant.name, schedule.name
