DELETE FROM progress WHERE id = ?1
