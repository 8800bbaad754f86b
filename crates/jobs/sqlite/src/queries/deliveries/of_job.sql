SELECT id, job, queue, tenant, seq, kind, attempt, webhook, state, tries, created_ms, next_try_ms
FROM deliveries WHERE job = ?1 ORDER BY id
