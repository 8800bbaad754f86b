SELECT coalesce(max(number), 0) FROM logs WHERE id = ?1
