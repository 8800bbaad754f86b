UPDATE deliveries SET state = ?2, tries = ?3, next_try_ms = ?4 WHERE id = ?1
