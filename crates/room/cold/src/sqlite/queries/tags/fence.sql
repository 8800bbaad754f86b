SELECT id, generation, saved_generation, saved_snap, keys, bytes, tombstones
FROM tags
WHERE tag = ?1;
