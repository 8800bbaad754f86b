SELECT queue, tenant, scheduled, ready, blocked, running, succeeded, failed, cancelled, passed_enqueued, passed_started,
    passed_succeeded, passed_failed, passed_cancelled, passed_attempts_failed, passed_leases_lost, passed_late_reports
FROM counters
