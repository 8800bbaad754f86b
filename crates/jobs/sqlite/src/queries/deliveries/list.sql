SELECT id, job, queue, tenant, seq, kind, attempt, webhook, state, tries, created_ms, next_try_ms
FROM deliveries
WHERE id < ?1 AND (?2 IS NULL OR tenant = ?2) AND (?3 IS NULL OR queue = ?3) AND (?4 IS NULL OR job = ?4)
    AND (?5 IS NULL OR state = ?5) AND (?6 IS NULL OR created_ms >= ?6) AND (?8 IS NULL OR id = ?8)
ORDER BY id DESC
LIMIT ?7
