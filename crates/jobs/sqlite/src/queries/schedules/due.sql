SELECT t.name, s.name, s.cron, s.time_zone, s.missed, s.paused, s.template, s.next_run_ms, s.last_run_ms, s.created_ms
FROM schedules s JOIN tenants t ON t.num = s.tenant
WHERE s.next_run_ms <= ?1
ORDER BY s.next_run_ms, t.name, s.name
LIMIT ?2
