INSERT INTO delivery_tries (delivery, number, at_ms, latency_ms, status, error, reply)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
