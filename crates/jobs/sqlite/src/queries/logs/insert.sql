INSERT INTO logs (id, number, at_ms, attempt, text) VALUES (?1, ?2, ?3, ?4, ?5)
