UPDATE deliveries SET next_try_ms = ?2 WHERE id = ?1 AND tries = ?3 AND state = 1
