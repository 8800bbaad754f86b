DELETE FROM running WHERE id = ?1
RETURNING id, queue, tenant, attempt, attempt_max, nonce, worker, started_ms, lease_ms, lease_until_ms, plain
