DELETE FROM jobs_subscription
WHERE tenant = (SELECT id FROM jobs_tenant WHERE jobs_tenant.name = $1) AND name = $2
