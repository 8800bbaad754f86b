SELECT delivery, number, at_ms, latency_ms, status, error, reply FROM jobs_delivery_try
WHERE delivery = ANY ($1::int8[]) ORDER BY delivery, number
