DELETE FROM held WHERE id = ?1 RETURNING attempt, attempt_max
