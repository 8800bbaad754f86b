INSERT INTO attempts (id, number, nonce, worker, started_ms, ended_ms, end, error) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
