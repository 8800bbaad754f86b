SELECT id, job, queue, tenant, seq, kind, attempt, webhook, state, tries, created_ms, next_try_ms
FROM deliveries WHERE state = 1 AND next_try_ms <= ?1 ORDER BY next_try_ms, id LIMIT ?2
