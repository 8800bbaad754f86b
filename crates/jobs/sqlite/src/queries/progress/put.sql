INSERT OR REPLACE INTO progress (id, per_mille, message, data, at_ms, event_at_ms)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
