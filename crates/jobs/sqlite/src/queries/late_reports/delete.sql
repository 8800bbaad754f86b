DELETE FROM late_reports WHERE id = ?1
