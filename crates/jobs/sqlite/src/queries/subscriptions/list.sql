SELECT t.name, s.name, s.filter, s.cursor, s.created_ms, s.advanced_ms
FROM subscriptions s JOIN tenants t ON t.num = s.tenant
WHERE ?1 IS NULL OR t.name = ?1
ORDER BY t.name, s.name
