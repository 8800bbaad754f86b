SELECT state FROM done WHERE id = ?1
