SELECT sum(scheduled), sum(ready), sum(blocked), sum(running), sum(succeeded), sum(failed), sum(cancelled), sum(passed_enqueued), sum(passed_started), sum(passed_succeeded), sum(passed_failed), sum(passed_cancelled), sum(passed_attempts_failed), sum(passed_leases_lost), sum(passed_late_reports)
FROM counters WHERE queue = ?1
