SELECT
    coalesce(sum(tags), 0)::bigint, coalesce(sum(keys), 0)::bigint,
    coalesce(sum(tombstones), 0)::bigint, coalesce(sum(bytes), 0)::bigint
FROM room_totals
