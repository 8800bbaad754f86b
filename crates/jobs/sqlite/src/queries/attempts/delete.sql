DELETE FROM attempts WHERE id = ?1
