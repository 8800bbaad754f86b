INSERT INTO delayed (run_at_ms, id, attempt, attempt_max) VALUES (?1, ?2, ?3, ?4)
