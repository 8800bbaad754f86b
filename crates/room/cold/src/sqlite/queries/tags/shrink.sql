UPDATE tags SET keys = keys - ?2, bytes = bytes - ?3, tombstones = tombstones - ?4 WHERE id = ?1;
