DELETE FROM keys
WHERE tag_id IN (SELECT id FROM tags WHERE (saved_generation, saved_snap) <= (?1, ?2));
