SELECT min(run_at_ms) FROM delayed
