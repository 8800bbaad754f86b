DELETE FROM jobs_token WHERE tenant = (SELECT id FROM jobs_tenant WHERE jobs_tenant.name = $1) AND name = $2
