SELECT one.tenant, one.name, filter, cursor, one.created_ms, advanced_ms
FROM jobs_subscription one JOIN jobs_tenant tenant ON tenant.id = one.tenant
WHERE $1::text IS NULL OR tenant.name = $1::text
ORDER BY tenant.name, one.name
