UPDATE tags SET status = ?2 WHERE tag = ?1 AND status <> ?2;
