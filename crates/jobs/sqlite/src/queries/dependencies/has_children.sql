SELECT EXISTS (SELECT 1 FROM dependencies WHERE parent = ?1)
