INSERT INTO jobs (
    id, queue, tenant, kind, priority, created_ms, run_at_ms, lease_ms, max_retries, seq_from, options,
    content_type, payload
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
