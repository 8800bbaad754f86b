-- Finds the tenants with ready jobs in a queue, and how many each has, up to a bound ($2). Those in $3 are looked
-- for from a place in their order ($4, $5), the others by hops through the index, in the stretches between them
-- ($6 to $7, both left out).
WITH RECURSIVE hop AS (
    SELECT stretch.below, (SELECT ready.tenant FROM jobs_ready ready
                           WHERE ready.queue = $1::int4 AND ready.tenant > stretch.above
                             AND ready.tenant < stretch.below
                           ORDER BY ready.tenant LIMIT 1) AS tenant
    FROM unnest($6::int4[], $7::int4[]) AS stretch (above, below)
    UNION ALL
    SELECT hop.below, (SELECT ready.tenant FROM jobs_ready ready
                       WHERE ready.queue = $1::int4 AND ready.tenant > hop.tenant AND ready.tenant < hop.below
                       ORDER BY ready.tenant LIMIT 1)
    FROM hop WHERE hop.tenant IS NOT NULL
), party AS (
    SELECT tenant, (-32768)::int2 AS rank_0, 0::int8 AS pos_0 FROM hop WHERE tenant IS NOT NULL
    UNION ALL
    SELECT * FROM unnest($3::int4[], $4::int2[], $5::int8[])
)
SELECT party.tenant, bounded.jobs
FROM party CROSS JOIN LATERAL (
    SELECT count(*) AS jobs FROM (
        SELECT FROM jobs_ready ready
        WHERE ready.queue = $1::int4 AND ready.tenant = party.tenant AND (ready.rank, ready.pos) >= (rank_0, pos_0)
        LIMIT $2::int8
    ) part
) bounded
WHERE bounded.jobs > 0
ORDER BY party.tenant
