INSERT INTO running (
    id, queue, tenant, attempt, attempt_max, nonce, worker, started_ms, lease_ms, lease_until_ms, plain
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
