SELECT id, job, queue, tenant, seq, kind, attempt, webhook, state, tries, created_ms, next_try_ms
FROM jobs_delivery WHERE job = $1 ORDER BY id
