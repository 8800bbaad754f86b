INSERT INTO events (seq, job, queue, tenant, kind, attempt, at_ms, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
