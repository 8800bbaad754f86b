SELECT number, worker, started_ms, ended_ms, end, error FROM attempts WHERE id = ?1 ORDER BY number
