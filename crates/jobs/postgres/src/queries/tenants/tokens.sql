SELECT one.hash, one.tenant, one.name, one.scopes, one.queues, one.created_ms, one.expires_ms
FROM jobs_token one JOIN jobs_tenant tenant ON tenant.id = one.tenant
WHERE $1::text IS NULL OR tenant.name = $1::text
ORDER BY tenant.name, one.name
