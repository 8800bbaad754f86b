SELECT id, queue, tenant, attempt, attempt_max, nonce, worker, started_ms, lease_ms, lease_until_ms, plain FROM running WHERE id = ?1
