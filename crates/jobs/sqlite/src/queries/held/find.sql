SELECT key, pos, attempt FROM held WHERE id = ?1
