INSERT OR REPLACE INTO places (queue, key, places, taken) VALUES (?1, ?2, ?3, ?4)
