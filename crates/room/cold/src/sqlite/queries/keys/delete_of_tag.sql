DELETE FROM keys WHERE tag_id = ?1;
