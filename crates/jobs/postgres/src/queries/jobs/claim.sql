-- Moves ready jobs of one queue to running, for tenants with their shares, each from a place in its order.
-- The n-th of them goes to the n-th worker, with that worker's lease (0: the job's own).
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
                              lease_ms, lease_until_ms)
    SELECT id, queue, tenant, rank, attempt + 1, attempt_max, flags, $7::int8, ($8::text[])[slot], $1::int8,
           lease_ms, $1::int8 + lease_ms
    FROM numbered
    RETURNING id
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
