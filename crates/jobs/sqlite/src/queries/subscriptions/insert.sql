INSERT OR IGNORE INTO subscriptions (tenant, name, filter, cursor, created_ms, advanced_ms)
VALUES (?1, ?2, ?3, ?4, ?5, ?5)
