SELECT k.name, t.name, k.hash, k.scopes, k.queues, k.created_ms, k.expires_ms
FROM tokens k JOIN tenants t ON t.num = k.tenant
WHERE k.hash = ?1
