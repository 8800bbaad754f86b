DELETE FROM uniques WHERE queue = ?1 AND tenant = ?2 AND key = ?3 AND id = ?4
