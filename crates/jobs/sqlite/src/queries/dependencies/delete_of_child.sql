DELETE FROM dependencies WHERE child = ?1
