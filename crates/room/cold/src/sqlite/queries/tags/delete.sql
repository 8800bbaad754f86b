DELETE FROM tags WHERE id = ?1;
