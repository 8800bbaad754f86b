SELECT attempt FROM ready WHERE queue = ?1 AND tenant = ?2 AND rank = ?3 AND pos = ?4
