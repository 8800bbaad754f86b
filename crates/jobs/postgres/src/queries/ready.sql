-- Jobs that can be claimed.

-- name: claim
-- Moves ready jobs of one queue to running, for tenants with their shares, each from a position in its order.
-- The n-th job goes to the n-th worker, with that worker's lease (0: the job's own).
WITH wanted AS MATERIALIZED (
    SELECT * FROM unnest($3::int4[], $4::int4[], $5::int2[], $6::int8[]) AS one (tenant, most, rank_0, pos_0)
), picked AS MATERIALIZED (
    SELECT found.spot
    FROM wanted CROSS JOIN LATERAL (
        SELECT ready.ctid AS spot FROM jobs_ready ready
        WHERE ready.queue = $2::int4 AND ready.tenant = wanted.tenant AND (ready.rank, ready.pos) >= (rank_0, pos_0)
        ORDER BY ready.rank, ready.pos LIMIT wanted.most
        FOR UPDATE SKIP LOCKED
    ) found
    WHERE NOT (SELECT paused FROM jobs_queue WHERE id = $2::int4)
), gone AS (
    -- Ready rows are never updated, so a row's place in the table is safe to go by.
    DELETE FROM jobs_ready WHERE ctid = ANY (ARRAY(SELECT spot FROM picked))
    RETURNING queue, tenant, rank, pos, id, attempt, attempt_max, flags
), numbered AS MATERIALIZED (
    SELECT one.*, job.kind, job.options, job.content_type, job.payload, job.max_retries, job.created_ms,
           coalesce(nullif(($9::int8[])[slot], 0), job.lease_ms) AS lease_ms
    FROM (SELECT *, row_number() OVER (ORDER BY rank, pos) AS slot FROM gone) one
    CROSS JOIN LATERAL (
        SELECT kind, options, content_type, payload, max_retries, created_ms, lease_ms
        FROM jobs_job WHERE jobs_job.id = one.id OFFSET 0
    ) job
), started AS (
    INSERT INTO jobs_running (id, queue, tenant, rank, attempt, attempt_max, flags, nonce, worker, started_ms,
                              lease_ms, lease_until_ms, renewed_ms)
    SELECT id, queue, tenant, rank, attempt + 1, attempt_max, flags, $7::int8, ($8::text[])[slot], $1::int8,
           lease_ms, $1::int8 + lease_ms, $1::int8
    FROM numbered
    RETURNING id
), counted AS (
    INSERT INTO jobs_throughput_delta (queue, tenant, started)
    SELECT queue, tenant, count(*) FROM numbered GROUP BY queue, tenant
), gate AS MATERIALIZED (
    SELECT pg_advisory_xact_lock(7953761907321733121) FROM (SELECT count(*) AS jobs FROM started) a
    WHERE $10::bool AND jobs > 0
), logged AS (
    INSERT INTO jobs_event (seq, kind, job, queue, tenant, attempt, at_ms)
    SELECT nextval('jobs_event_seq'), 2, id, queue, tenant, attempt + 1, $1::int8
    FROM (SELECT numbered.id, queue, tenant, attempt FROM gate, numbered ORDER BY slot) one
    RETURNING seq
)
SELECT slot, id, attempt + 1, lease_ms, $1::int8 + lease_ms, tenant, rank, pos, kind, options, content_type, payload,
       max_retries, created_ms, (SELECT max(seq) FROM logged)
FROM numbered
ORDER BY slot

-- name: tenants
-- Finds the tenants with ready jobs in a queue, and how many each has, up to a bound ($2). Those in $3 are
-- scanned from a position in their order ($4, $5). The others are found by skipping through the index, in the
-- ranges between them ($6 to $7, both exclusive).
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

-- name: insert
-- Makes jobs ready, and records their positions.
WITH given AS MATERIALIZED (
    SELECT * FROM json_populate_recordset(NULL::jobs_ready, $1::text::json)
), moved AS (
    INSERT INTO jobs_moved (id, pos) SELECT id, pos FROM given
    ON CONFLICT (id) DO UPDATE SET pos = excluded.pos
)
INSERT INTO jobs_ready SELECT * FROM given

-- name: take
WITH spot AS MATERIALIZED (
    SELECT job.queue, job.tenant, job.rank, coalesce(moved.pos, job.id) AS pos
    FROM jobs_job job LEFT JOIN jobs_moved moved ON moved.id = job.id
    WHERE job.id = $1
), gone AS (
    DELETE FROM jobs_ready ready USING spot
    WHERE ready.queue = spot.queue AND ready.tenant = spot.tenant AND ready.rank = spot.rank
      AND ready.pos = spot.pos AND ready.id = $1
    RETURNING ready.id, ready.queue, ready.tenant, ready.rank, attempt, attempt_max, flags
)
SELECT gone.id, gone.queue, gone.tenant, gone.rank, attempt, attempt_max, flags, job.options
FROM gone JOIN jobs_job job ON job.id = gone.id

-- name: ahead
-- Counts the ready jobs of a job's tenant and queue that go before it, up to a bound.
SELECT count(*) FROM (
    SELECT FROM jobs_job job, jobs_ready ready
    WHERE job.id = $1 AND ready.queue = job.queue AND ready.tenant = job.tenant
      AND (ready.rank, ready.pos)
          < (job.rank, coalesce((SELECT pos FROM jobs_moved WHERE jobs_moved.id = job.id), job.id))
    LIMIT $2
) part
