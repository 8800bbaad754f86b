SELECT number, at_ms, latency_ms, status, error, reply FROM delivery_tries WHERE delivery = ?1 ORDER BY number
