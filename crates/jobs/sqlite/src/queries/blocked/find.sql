SELECT pending FROM blocked WHERE id = ?1
