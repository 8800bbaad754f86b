INSERT INTO room_totals AS totals (part, tags, keys, tombstones, bytes, newest_generation, newest_snap)
SELECT
    0, count(*), coalesce(sum(keys), 0), coalesce(sum(tombstones), 0), coalesce(sum(bytes), 0), 0, 0
FROM room_tags
ON CONFLICT (part) DO UPDATE SET
    tags = excluded.tags, keys = excluded.keys, tombstones = excluded.tombstones, bytes = excluded.bytes
