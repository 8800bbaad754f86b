INSERT OR REPLACE INTO idempotency (queue, tenant, key, id, expires_ms) VALUES (?1, ?2, ?3, ?4, ?5)
