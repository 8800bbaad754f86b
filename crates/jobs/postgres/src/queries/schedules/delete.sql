DELETE FROM jobs_schedule WHERE tenant = (SELECT id FROM jobs_tenant WHERE name = $1) AND name = $2
