INSERT INTO dependencies (parent, child) VALUES (?1, ?2)
