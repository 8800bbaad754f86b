-- Idempotency keys and unique keys.

-- name: find_idempotency
SELECT id, fingerprint, ended FROM idempotency WHERE queue = ?1 AND tenant = ?2 AND key = ?3 AND expires_ms > ?4

-- name: put_idempotency
INSERT OR REPLACE INTO idempotency (queue, tenant, key, id, expires_ms, fingerprint) VALUES (?1, ?2, ?3, ?4, ?5, ?6)

-- name: outlive
-- The job is about to be removed; its keys are kept for their whole window.
UPDATE idempotency SET ended = ?2 WHERE id = ?1

-- name: purge_idempotency
DELETE FROM idempotency WHERE (queue, tenant, key) IN (
    SELECT queue, tenant, key FROM idempotency WHERE expires_ms <= ?1 ORDER BY expires_ms LIMIT ?2
)

-- name: find_unique
SELECT id FROM uniques WHERE queue = ?1 AND tenant = ?2 AND key = ?3

-- name: insert_unique
INSERT INTO uniques (queue, tenant, key, id) VALUES (?1, ?2, ?3, ?4)

-- name: delete_unique
DELETE FROM uniques WHERE queue = ?1 AND tenant = ?2 AND key = ?3 AND id = ?4
