SELECT r.rank, r.pos, r.id, r.attempt, r.attempt_max,
    j.kind, j.priority, j.created_ms, j.lease_ms, j.max_retries, j.options, j.content_type, j.payload
FROM ready r CROSS JOIN jobs j ON j.id = r.id
WHERE r.queue = ?1 AND r.tenant = ?2
ORDER BY r.rank, r.pos
LIMIT ?3
