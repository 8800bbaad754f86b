INSERT OR REPLACE INTO positions (id, pos) VALUES (?1, ?2)
