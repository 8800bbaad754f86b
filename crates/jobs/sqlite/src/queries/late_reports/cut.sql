DELETE FROM late_reports WHERE id = ?1 AND number <= ?2
