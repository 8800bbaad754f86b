-- Registers plain jobs, also ones with an idempotency key that nobody holds; those whose key is held are left
-- out of the answer. Events are numbered behind the gate, after all other work. A job without a time ($7) is put
-- in no place: the caller's transaction does that.
WITH given AS MATERIALIZED (
    SELECT * FROM unnest($2::int8[], $3::int4[], $4::int4[], $5::text[], $6::int2[], $7::int8[], $8::int8[],
                         $9::int4[], $10::text[], $11::text[], $12::bytea[], $13::int2[], $14::text[],
                         $15::int8[], $16::bool[])
        AS one (id, queue, tenant, kind, rank, run_at_ms, lease_ms, max_retries, options, content_type, payload,
                flags, key, key_expires_ms, is_logged)
), won AS (
    INSERT INTO jobs_key (queue, tenant, key, id, expires_ms)
    -- In one order, so that two registrations cannot wait for each other.
    SELECT queue, tenant, key, id, key_expires_ms FROM given WHERE key IS NOT NULL ORDER BY queue, tenant, key, id
    ON CONFLICT DO NOTHING
    RETURNING id
), taken AS MATERIALIZED (
    SELECT * FROM given WHERE key IS NULL OR id IN (SELECT id FROM won)
), made AS (
    INSERT INTO jobs_job (id, queue, tenant, kind, rank, created_ms, lease_ms, max_retries, options,
                          content_type, payload)
    SELECT id, queue, tenant, kind, rank, $1::int8, lease_ms, max_retries, options, content_type, payload FROM taken
    RETURNING id
), now_ready AS (
    INSERT INTO jobs_ready (queue, tenant, rank, pos, id, attempt, attempt_max, flags)
    SELECT queue, tenant, rank, id, id, 0, max_retries + 1, flags FROM taken WHERE run_at_ms <= $1::int8
    RETURNING id
), later AS (
    INSERT INTO jobs_delayed (run_at_ms, id, queue, tenant, rank, attempt, attempt_max, flags)
    SELECT run_at_ms, id, queue, tenant, rank, 0, max_retries + 1, flags FROM taken WHERE run_at_ms > $1::int8
    RETURNING id
), gate AS MATERIALIZED (
    SELECT pg_advisory_xact_lock(7953761907321733121)
    FROM (SELECT count(*) FROM made) a, (SELECT count(*) FROM now_ready) b, (SELECT count(*) FROM later) c
    WHERE EXISTS (SELECT FROM taken WHERE is_logged)
), logged AS (
    INSERT INTO jobs_event (seq, kind, job, queue, tenant, attempt, at_ms)
    SELECT nextval('jobs_event_seq'), 1, id, queue, tenant, 0, $1::int8
    FROM (SELECT taken.id, queue, tenant FROM gate, taken WHERE is_logged ORDER BY taken.id) one
    RETURNING seq
)
SELECT id, (SELECT max(seq) FROM logged) FROM taken
