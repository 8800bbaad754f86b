SELECT min(next_run_ms) FROM schedules WHERE next_run_ms IS NOT NULL
