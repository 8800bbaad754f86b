DELETE FROM keys WHERE tag_id = ?1 AND key = ?2;
