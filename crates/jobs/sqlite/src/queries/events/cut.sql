DELETE FROM events WHERE seq <= ?1
