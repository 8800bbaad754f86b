INSERT INTO done (
    id, state, attempt, nonce, worker, started_ms, ended_ms, purge_at_ms, error, content_type, result
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
