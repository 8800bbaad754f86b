SELECT count(*), coalesce(sum(keys), 0), coalesce(sum(tombstones), 0), coalesce(sum(bytes), 0)
FROM tags
WHERE (saved_generation, saved_snap) <= (?1, ?2);
