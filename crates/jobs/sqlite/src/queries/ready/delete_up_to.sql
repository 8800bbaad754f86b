DELETE FROM ready WHERE queue = ?1 AND tenant = ?2 AND (rank, pos) <= (?3, ?4)
