SELECT (SELECT min(run_at_ms) FROM jobs_delayed), (SELECT min(lease_until_ms) FROM jobs_running),
       (SELECT min(next_run_ms) FROM jobs_schedule WHERE next_run_ms IS NOT NULL),
       (SELECT min(next_try_ms) FROM jobs_delivery WHERE state = 0), (SELECT min(purge_at_ms) FROM jobs_done)
