INSERT INTO tenants (name, weight, created_ms) VALUES (?1, ?2, ?3)
