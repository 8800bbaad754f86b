-- The last of the next few tags by number.
-- ?1 the number before them  ?2 how many
SELECT max(id) FROM (SELECT id FROM tags WHERE id > ?1 ORDER BY id LIMIT ?2);
