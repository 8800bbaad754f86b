DELETE FROM running WHERE id IN (
    SELECT id FROM running WHERE lease_until_ms <= ?1 ORDER BY lease_until_ms LIMIT ?2
) RETURNING id, queue, tenant, attempt, attempt_max, nonce, worker, started_ms, lease_ms, lease_until_ms, plain
