SELECT j.id, j.queue, j.tenant, j.kind, j.priority, j.created_ms, j.max_retries, j.options,
    r.attempt, w.run_at_ms, w.attempt, d.state, d.attempt, d.ended_ms, d.error, h.attempt
FROM jobs j
LEFT JOIN running r ON r.id = j.id
LEFT JOIN done d ON d.id = j.id
LEFT JOIN delayed w ON w.id = j.id
LEFT JOIN held h ON h.id = j.id
WHERE j.id = ?1
