DELETE FROM logs WHERE id = ?1 AND number <= ?2
