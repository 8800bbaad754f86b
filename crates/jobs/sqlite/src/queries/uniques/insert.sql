INSERT INTO uniques (queue, tenant, key, id) VALUES (?1, ?2, ?3, ?4)
