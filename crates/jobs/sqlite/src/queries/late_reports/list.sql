SELECT at_ms, attempt, what, why FROM late_reports WHERE id = ?1 ORDER BY number
