SELECT id FROM done WHERE state <> 4 AND id < ?1 ORDER BY id DESC LIMIT ?2
