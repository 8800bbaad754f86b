SELECT run_at_ms, attempt FROM delayed WHERE id = ?1
