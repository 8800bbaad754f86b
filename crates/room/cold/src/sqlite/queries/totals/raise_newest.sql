UPDATE totals SET newest_generation = ?1, newest_snap = ?2
WHERE (newest_generation, newest_snap) < (?1, ?2);
