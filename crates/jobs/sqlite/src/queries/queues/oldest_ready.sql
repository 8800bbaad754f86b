-- The lowest position of each tenant and rank; walks from group to group, never through one.
WITH RECURSIVE spot (tenant, rank, pos) AS (
    SELECT * FROM (SELECT tenant, rank, pos FROM ready WHERE queue = ?1 ORDER BY tenant, rank, pos LIMIT 1)
    UNION ALL
    SELECT n.tenant, n.rank, n.pos
    FROM spot s
    JOIN ready n ON n.queue = ?1 AND (n.tenant, n.rank, n.pos) = (
        SELECT tenant, rank, pos FROM ready
        WHERE queue = ?1 AND (tenant, rank) > (s.tenant, s.rank)
        ORDER BY tenant, rank, pos LIMIT 1
    )
)
SELECT min(pos) FROM spot
