-- Writes one job with its keys and dependencies. An idempotency key whose window is over, or whose job is gone, is
-- replaced if it is still that one's ($16); false when somebody else was faster. A unique key that is held is a
-- violation.
WITH job AS (
    INSERT INTO jobs_job (id, queue, tenant, kind, rank, created_ms, lease_ms, max_retries, options, content_type,
                          payload)
    VALUES ($1::int8, $2::int4, $3::int4, $4, $5, $6, $7, $8, $9, $10, $11)
), remembered AS (
    INSERT INTO jobs_key AS old (queue, tenant, key, id, expires_ms)
    SELECT $2::int4, $3::int4, $12::text, $1::int8, $13::int8 WHERE $12::text IS NOT NULL
    ON CONFLICT (queue, tenant, key) DO UPDATE SET id = excluded.id, expires_ms = excluded.expires_ms
        WHERE old.id = $16::int8
    RETURNING id
), held AS (
    INSERT INTO jobs_unique (queue, tenant, key, id)
    SELECT $2::int4, $3::int4, $14::text, $1::int8 WHERE $14::text IS NOT NULL
), depends AS (
    INSERT INTO jobs_dependency (dependent, on_job) SELECT $1::int8, unnest($15::int8[])
)
SELECT $12::text IS NULL OR EXISTS (SELECT FROM remembered)
