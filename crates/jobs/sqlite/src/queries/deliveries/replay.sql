UPDATE deliveries SET state = 1, next_try_ms = ?6
WHERE id IN (
    SELECT id FROM deliveries
    WHERE (?1 IS NULL OR tenant = ?1) AND (?2 IS NULL OR queue = ?2) AND (?3 IS NULL OR job = ?3)
        AND (?4 IS NULL OR state = ?4) AND (?5 IS NULL OR created_ms >= ?5) AND (?8 IS NULL OR id = ?8)
    ORDER BY id
    LIMIT ?7
)
