DELETE FROM schedules WHERE tenant = ?1 AND name = ?2
