SELECT state, attempt, nonce, worker, started_ms, ended_ms, purge_at_ms, error, content_type, result
FROM done WHERE id = ?1
