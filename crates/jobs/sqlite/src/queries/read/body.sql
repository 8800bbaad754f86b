SELECT run_at_ms, lease_ms, content_type, payload FROM jobs WHERE id = ?1
