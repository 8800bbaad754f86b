DELETE FROM running WHERE id = ?1
