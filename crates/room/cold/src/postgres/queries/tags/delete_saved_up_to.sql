-- Returns what went.
-- $1 generation and $2 snap of the newest that may go
WITH gone AS (
    DELETE FROM room_tags
    WHERE (saved_generation, saved_snap) <= ($1, $2)
    RETURNING keys, tombstones, bytes
)
SELECT
    count(*), coalesce(sum(keys), 0)::bigint, coalesce(sum(tombstones), 0)::bigint,
    coalesce(sum(bytes), 0)::bigint
FROM gone
