DELETE FROM subscriptions WHERE tenant = ?1 AND name = ?2
