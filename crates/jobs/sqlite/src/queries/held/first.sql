SELECT pos, id, attempt, attempt_max FROM held WHERE queue = ?1 AND key = ?2 ORDER BY pos LIMIT 1
