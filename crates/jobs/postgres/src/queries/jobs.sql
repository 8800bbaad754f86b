-- The jobs themselves: registration, reading, listings.

-- name: enqueue
-- Registers jobs without constraints, including ones with a free idempotency key; those whose key is held are
-- left out of the result. Events are numbered behind the gate, after all other work. A job without a time ($7)
-- is inserted into no other table: the transaction of the caller does that.
WITH given AS MATERIALIZED (
    SELECT * FROM unnest($2::int8[], $3::int4[], $4::int4[], $5::text[], $6::int2[], $7::int8[], $8::int8[],
                         $9::int4[], $10::text[], $11::text[], $12::bytea[], $13::int2[], $14::text[],
                         $15::int8[], $16::bool[], $17::bytea[])
        AS one (id, queue, tenant, kind, rank, run_at_ms, lease_ms, max_retries, options, content_type, payload,
                flags, key, key_expires_ms, is_logged, fingerprint)
), won AS (
    INSERT INTO jobs_key (queue, tenant, key, id, expires_ms, fingerprint)
    -- In one order, so that two registrations cannot wait for each other.
    SELECT queue, tenant, key, id, key_expires_ms, fingerprint FROM given WHERE key IS NOT NULL ORDER BY queue, tenant, key, id
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
), counted AS (
    INSERT INTO jobs_throughput_delta (queue, tenant, enqueued)
    SELECT queue, tenant, count(*) FROM taken WHERE run_at_ms IS NOT NULL GROUP BY queue, tenant
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

-- name: insert
-- Writes one job with its keys and dependencies. An idempotency key that expired, or whose job is gone, is
-- replaced if that job ($16) still holds it; the result is false when another registration was faster. A unique
-- key that is held is a violation.
WITH job AS (
    INSERT INTO jobs_job (id, queue, tenant, kind, rank, created_ms, lease_ms, max_retries, options, content_type,
                          payload)
    VALUES ($1::int8, $2::int4, $3::int4, $4, $5, $6, $7, $8, $9, $10, $11)
), remembered AS (
    INSERT INTO jobs_key AS old (queue, tenant, key, id, expires_ms, fingerprint)
    SELECT $2::int4, $3::int4, $12::text, $1::int8, $13::int8, $17::bytea WHERE $12::text IS NOT NULL
    ON CONFLICT (queue, tenant, key) DO UPDATE
        SET id = excluded.id, expires_ms = excluded.expires_ms, fingerprint = excluded.fingerprint, ended = NULL
        WHERE old.id = $16::int8
    RETURNING id
), held AS (
    INSERT INTO jobs_unique (queue, tenant, key, id)
    SELECT $2::int4, $3::int4, $14::text, $1::int8 WHERE $14::text IS NOT NULL
), depends AS (
    INSERT INTO jobs_dependency (dependent, on_job) SELECT $1::int8, unnest($15::int8[])
)
SELECT $12::text IS NULL OR EXISTS (SELECT FROM remembered)

-- name: edit
UPDATE jobs_job SET rank = coalesce($2::int2, rank), lease_ms = coalesce($3::int8, lease_ms),
    max_retries = coalesce($4::int4, max_retries),
    content_type = CASE WHEN $6::bytea IS NULL THEN content_type ELSE $5::text END,
    payload = coalesce($6::bytea, payload), queue = coalesce($7::int4, queue)
WHERE id = $1::int8

-- name: queue
-- The queue of a job, and whether it holds a unique key there.
SELECT queue, EXISTS (SELECT FROM jobs_unique WHERE jobs_unique.id = $1::int8) FROM jobs_job WHERE id = $1::int8

-- name: options
SELECT options FROM jobs_job WHERE id = $1

-- name: read
SELECT job.id, job.queue, job.tenant, job.kind, job.rank, job.created_ms, job.max_retries, job.options,
       running.attempt, delayed.run_at_ms, delayed.attempt, done.state, done.attempt, done.ended_ms, done.error,
       blocked.attempt, job.content_type, job.payload, job.lease_ms,
       (SELECT attempt FROM jobs_ready ready
        WHERE ready.queue = job.queue AND ready.tenant = job.tenant AND ready.rank = job.rank
          AND ready.pos = coalesce((SELECT pos FROM jobs_moved WHERE jobs_moved.id = job.id), job.id)
          AND ready.id = job.id),
       running.worker, running.started_ms, running.lease_until_ms, done.content_type, done.result,
       done.purge_at_ms, done.worker, done.started_ms, NULL,
       coalesce((SELECT max(number) FROM jobs_log WHERE jobs_log.id = job.id), 0),
       ARRAY(SELECT on_job FROM jobs_dependency WHERE dependent = job.id ORDER BY on_job)
FROM jobs_job job
LEFT JOIN jobs_running running ON running.id = job.id
LEFT JOIN jobs_done done ON done.id = job.id
LEFT JOIN jobs_delayed delayed ON delayed.id = job.id
LEFT JOIN jobs_blocked blocked ON blocked.id = job.id
WHERE job.id = ANY ($1::int8[])

-- name: states
-- 1 scheduled, 2 waiting, 3 running, otherwise the ending; NULL for a job that does not exist, or is not of the
-- tenant $2 when there is one.
SELECT CASE
    WHEN job.id IS NULL THEN NULL
    ELSE coalesce(
        (SELECT state FROM jobs_done WHERE jobs_done.id = job.id),
        (SELECT 3::int2 FROM jobs_running WHERE jobs_running.id = job.id),
        (SELECT 1::int2 FROM jobs_delayed WHERE jobs_delayed.id = job.id),
        2::int2)
    END
FROM unnest($1::int8[]) WITH ORDINALITY AS asked (id, place)
LEFT JOIN jobs_job job ON job.id = asked.id AND ($2::int4 IS NULL OR job.tenant = $2::int4)
ORDER BY asked.place

-- name: explain
SELECT done.state, running.worker, running.started_ms, running.lease_until_ms, delayed.run_at_ms, delayed.attempt,
       blocked.place, ARRAY(SELECT on_job FROM jobs_dependency WHERE dependent = job.id ORDER BY on_job),
       job.options, job.queue
FROM jobs_job job
LEFT JOIN jobs_running running ON running.id = job.id
LEFT JOIN jobs_done done ON done.id = job.id
LEFT JOIN jobs_delayed delayed ON delayed.id = job.id
LEFT JOIN jobs_blocked blocked ON blocked.id = job.id
WHERE job.id = $1

-- name: list_all
SELECT id FROM jobs_job WHERE id < $1 ORDER BY id DESC LIMIT $2

-- name: list_running
SELECT id FROM jobs_running WHERE id < $1 ORDER BY id DESC LIMIT $2

-- name: list_delayed
SELECT id FROM jobs_delayed WHERE id < $1 ORDER BY id DESC LIMIT $2

-- name: list_done
SELECT id FROM jobs_done WHERE id < $1 ORDER BY id DESC LIMIT $2

-- name: list_unsuccessful
SELECT id FROM jobs_done WHERE state <> 4 AND id < $1 ORDER BY id DESC LIMIT $2

-- name: summaries
SELECT job.id, job.queue, job.tenant, job.kind, job.rank, job.created_ms, job.max_retries, job.options,
       running.attempt, delayed.run_at_ms, delayed.attempt, done.state, done.attempt, done.ended_ms, done.error,
       blocked.attempt, NULL, NULL, NULL,
       (SELECT attempt FROM jobs_ready ready
        WHERE ready.queue = job.queue AND ready.tenant = job.tenant AND ready.rank = job.rank
          AND ready.pos = coalesce((SELECT pos FROM jobs_moved WHERE jobs_moved.id = job.id), job.id)
          AND ready.id = job.id)
FROM jobs_job job
LEFT JOIN jobs_running running ON running.id = job.id
LEFT JOIN jobs_done done ON done.id = job.id
LEFT JOIN jobs_delayed delayed ON delayed.id = job.id
LEFT JOIN jobs_blocked blocked ON blocked.id = job.id
WHERE job.id = ANY ($1::int8[])
  AND ($2::int4 IS NULL OR job.queue = $2::int4) AND ($3::int4 IS NULL OR job.tenant = $3::int4)
  AND ($4::text IS NULL OR job.kind = $4::text)
  AND ($5::int8 IS NULL OR job.created_ms >= $5::int8) AND ($6::int8 IS NULL OR job.created_ms < $6::int8)
ORDER BY job.id DESC
