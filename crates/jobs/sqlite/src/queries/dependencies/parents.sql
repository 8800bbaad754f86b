SELECT parent FROM dependencies WHERE child = ?1 ORDER BY parent
