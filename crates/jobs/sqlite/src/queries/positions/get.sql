SELECT pos FROM positions WHERE id = ?1
