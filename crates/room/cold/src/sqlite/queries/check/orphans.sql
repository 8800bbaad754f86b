SELECT count(*) FROM keys WHERE NOT EXISTS (SELECT 1 FROM tags WHERE tags.id = keys.tag_id);
