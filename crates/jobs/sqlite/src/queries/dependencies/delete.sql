DELETE FROM dependencies WHERE parent = ?1 AND child = ?2
