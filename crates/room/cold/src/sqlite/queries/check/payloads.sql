SELECT key, payload FROM keys WHERE tag_id = ?1 AND payload IS NOT NULL;
