DELETE FROM held WHERE queue = ?1 AND key = ?2 AND pos = ?3
