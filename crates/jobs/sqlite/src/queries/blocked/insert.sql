INSERT INTO blocked (id, pending) VALUES (?1, ?2)
