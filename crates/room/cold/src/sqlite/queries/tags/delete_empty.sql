-- Removes tags without any key or tombstone that were last saved long enough ago.
-- ?1 the number before the first  ?2 the last number  ?3 generation and ?4 snap of the newest that may go
DELETE FROM tags
WHERE id > ?1 AND id <= ?2 AND keys = 0 AND tombstones = 0
  AND (saved_generation, saved_snap) <= (?3, ?4);
