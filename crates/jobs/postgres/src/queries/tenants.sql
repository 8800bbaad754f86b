-- Tenants and their API tokens.

-- name: all
SELECT id, name, weight, created_ms FROM jobs_tenant

-- name: find_or_insert
INSERT INTO jobs_tenant (name, created_ms) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET name = excluded.name
RETURNING id, name, weight, created_ms

-- name: put
INSERT INTO jobs_tenant (name, weight, created_ms) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET weight = excluded.weight

-- name: put_token
INSERT INTO jobs_token (hash, tenant, name, scopes, queues, created_ms, expires_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (tenant, name) DO UPDATE SET
    hash = excluded.hash, scopes = excluded.scopes, queues = excluded.queues, created_ms = excluded.created_ms,
    expires_ms = excluded.expires_ms

-- name: token
SELECT one.hash, one.tenant, one.name, one.scopes, one.queues, one.created_ms, one.expires_ms FROM jobs_token one WHERE hash = $1

-- name: tokens
SELECT one.hash, one.tenant, one.name, one.scopes, one.queues, one.created_ms, one.expires_ms
FROM jobs_token one JOIN jobs_tenant tenant ON tenant.id = one.tenant
WHERE $1::text IS NULL OR tenant.name = $1::text
ORDER BY tenant.name, one.name

-- name: revoke_token
DELETE FROM jobs_token WHERE tenant = (SELECT id FROM jobs_tenant WHERE jobs_tenant.name = $1) AND name = $2
