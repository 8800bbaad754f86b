DELETE FROM idempotency WHERE (queue, tenant, key) IN (
    SELECT queue, tenant, key FROM idempotency WHERE expires_ms <= ?1 ORDER BY expires_ms LIMIT ?2
)
