UPDATE tags SET (keys, bytes, tombstones) = (
    SELECT
        count(keys.payload),
        coalesce(sum(length(keys.key) + length(keys.payload)), 0),
        count(keys.buried_at_ms)
    FROM keys
    WHERE keys.tag_id = tags.id
);
