INSERT INTO deliveries (
    job, queue, tenant, seq, kind, attempt, webhook, state, tries, created_ms, next_try_ms
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 1, 0, ?8, ?8)
