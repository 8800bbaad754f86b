INSERT INTO late_reports (id, number, at_ms, attempt, what, why) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
