SELECT seq, at_ms FROM events ORDER BY seq LIMIT ?1
