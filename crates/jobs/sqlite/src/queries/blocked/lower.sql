UPDATE blocked SET pending = pending - 1 WHERE id = ?1 AND pending > 1
