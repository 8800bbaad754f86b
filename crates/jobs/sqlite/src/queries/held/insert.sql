INSERT INTO held (queue, key, pos, id, attempt, attempt_max) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
