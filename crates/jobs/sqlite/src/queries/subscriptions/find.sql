SELECT t.name, s.name, s.filter, s.cursor, s.created_ms, s.advanced_ms
FROM subscriptions s JOIN tenants t ON t.num = s.tenant
WHERE s.tenant = ?1 AND s.name = ?2
