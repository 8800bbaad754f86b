UPDATE subscriptions SET cursor = ?3, advanced_ms = ?4 WHERE tenant = ?1 AND name = ?2 AND cursor < ?3
