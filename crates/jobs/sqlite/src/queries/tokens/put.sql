INSERT INTO tokens (tenant, name, hash, scopes, queues, created_ms, expires_ms)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (tenant, name) DO UPDATE
SET hash = excluded.hash, scopes = excluded.scopes, queues = excluded.queues,
    created_ms = excluded.created_ms, expires_ms = excluded.expires_ms
