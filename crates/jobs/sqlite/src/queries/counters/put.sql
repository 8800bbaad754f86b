INSERT OR REPLACE INTO counters (
    queue, tenant, scheduled, ready, blocked, running, succeeded, failed, cancelled, passed_enqueued, passed_started,
    passed_succeeded, passed_failed, passed_cancelled, passed_attempts_failed, passed_leases_lost, passed_late_reports
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
