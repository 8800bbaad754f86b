SELECT value FROM facts WHERE name = ?1
