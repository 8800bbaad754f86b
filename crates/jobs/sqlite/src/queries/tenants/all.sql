SELECT num, name, weight, created_ms FROM tenants ORDER BY name
