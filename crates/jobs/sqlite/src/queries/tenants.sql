-- Tenants and their API tokens.

-- name: all
SELECT num, name, weight, created_ms FROM tenants ORDER BY name

-- name: insert
INSERT INTO tenants (name, weight, created_ms) VALUES (?1, ?2, ?3)

-- name: set_weight
UPDATE tenants SET weight = ?2 WHERE num = ?1

-- name: put_token
INSERT INTO tokens (tenant, name, hash, scopes, queues, created_ms, expires_ms)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (tenant, name) DO UPDATE
SET hash = excluded.hash, scopes = excluded.scopes, queues = excluded.queues,
    created_ms = excluded.created_ms, expires_ms = excluded.expires_ms

-- name: token
SELECT k.name, t.name, k.hash, k.scopes, k.queues, k.created_ms, k.expires_ms
FROM tokens k JOIN tenants t ON t.num = k.tenant
WHERE k.hash = ?1

-- name: tokens
SELECT k.name, t.name, k.hash, k.scopes, k.queues, k.created_ms, k.expires_ms
FROM tokens k JOIN tenants t ON t.num = k.tenant
WHERE ?1 IS NULL OR t.name = ?1
ORDER BY t.name, k.name

-- name: revoke_token
DELETE FROM tokens WHERE tenant = ?1 AND name = ?2
