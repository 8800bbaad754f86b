SELECT id, name, weight, created_ms FROM jobs_tenant
