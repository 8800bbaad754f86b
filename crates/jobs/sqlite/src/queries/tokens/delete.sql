DELETE FROM tokens WHERE tenant = ?1 AND name = ?2
