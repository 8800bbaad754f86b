DELETE FROM resolving WHERE parent = ?1
