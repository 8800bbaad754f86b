DELETE FROM places WHERE queue = ?1 AND key = ?2
