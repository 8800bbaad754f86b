INSERT OR REPLACE INTO resolving (parent, succeeded) VALUES (?1, ?2)
