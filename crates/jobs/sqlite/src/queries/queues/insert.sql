INSERT INTO queues (name, settings, created_ms) VALUES (?1, ?2, ?3)
