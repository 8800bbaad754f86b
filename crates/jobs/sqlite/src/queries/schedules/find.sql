SELECT t.name, s.name, s.cron, s.time_zone, s.missed, s.paused, s.template, s.next_run_ms, s.last_run_ms, s.created_ms
FROM schedules s JOIN tenants t ON t.num = s.tenant
WHERE s.tenant = ?1 AND s.name = ?2
