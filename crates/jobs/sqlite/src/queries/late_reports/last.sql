SELECT coalesce(max(number), 0) FROM late_reports WHERE id = ?1
