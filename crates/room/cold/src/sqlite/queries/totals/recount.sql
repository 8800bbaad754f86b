UPDATE totals SET (tags, keys, tombstones, bytes) = (
    SELECT count(*), coalesce(sum(keys), 0), coalesce(sum(tombstones), 0), coalesce(sum(bytes), 0)
    FROM tags
);
