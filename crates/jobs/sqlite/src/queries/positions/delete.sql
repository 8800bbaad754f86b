DELETE FROM positions WHERE id = ?1
