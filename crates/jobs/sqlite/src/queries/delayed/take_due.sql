DELETE FROM delayed WHERE (run_at_ms, id) IN (
    SELECT run_at_ms, id FROM delayed WHERE run_at_ms <= ?1 ORDER BY run_at_ms, id LIMIT ?2
) RETURNING run_at_ms, id, attempt, attempt_max
