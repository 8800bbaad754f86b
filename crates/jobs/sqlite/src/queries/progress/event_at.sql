SELECT event_at_ms FROM progress WHERE id = ?1
