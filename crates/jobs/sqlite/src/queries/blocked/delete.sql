DELETE FROM blocked WHERE id = ?1
