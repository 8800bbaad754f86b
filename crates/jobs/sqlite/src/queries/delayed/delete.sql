DELETE FROM delayed WHERE id = ?1 RETURNING run_at_ms, attempt, attempt_max
