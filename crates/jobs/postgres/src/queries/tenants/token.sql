SELECT one.hash, one.tenant, one.name, one.scopes, one.queues, one.created_ms, one.expires_ms FROM jobs_token one WHERE hash = $1
