SELECT id FROM idempotency WHERE queue = ?1 AND tenant = ?2 AND key = ?3 AND expires_ms > ?4
