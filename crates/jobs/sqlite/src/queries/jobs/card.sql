SELECT queue, tenant, priority, max_retries, run_at_ms, options FROM jobs WHERE id = ?1
