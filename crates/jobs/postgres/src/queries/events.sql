-- The log of events, and subscriptions to it.

-- name: insert
-- Numbers events behind the gate. Only the commit may follow.
WITH gate AS MATERIALIZED (SELECT pg_advisory_xact_lock(7953761907321733121))
INSERT INTO jobs_event (seq, kind, job, queue, tenant, attempt, at_ms, data)
SELECT nextval('jobs_event_seq'), kind, job, queue, tenant, attempt, at_ms, data
FROM (
    SELECT one.* FROM gate, ROWS FROM (json_to_recordset($1::text::json)
        AS (kind int2, job int8, queue int4, tenant int4, attempt int4, at_ms int8, data text))
        WITH ORDINALITY AS one (kind, job, queue, tenant, attempt, at_ms, data, place)
    ORDER BY place
) given
RETURNING seq

-- name: after
-- The body of an ending is in the row of the job, as long as that is the ending of the event. Jobs are looked up by
-- key, whatever the planner thinks of the size of the tables, and only for events of the kinds asked for ($4).
SELECT event.seq, event.kind, event.job, event.queue, event.tenant, event.attempt, event.data, job.kind,
       done.error, done.content_type, done.result, event.at_ms
FROM (
    SELECT * FROM jobs_event WHERE seq > $1::int8 AND ($3::int8 IS NULL OR job = $3::int8)
    ORDER BY seq LIMIT $2::int8
) event
LEFT JOIN LATERAL (
    SELECT kind FROM jobs_job
    WHERE jobs_job.id = event.job AND ($4::int2[] IS NULL OR event.kind = ANY ($4::int2[])) OFFSET 0
) job ON true
LEFT JOIN LATERAL (
    SELECT error, content_type, result FROM jobs_done
    WHERE jobs_done.id = event.job AND jobs_done.attempt = event.attempt AND event.kind = jobs_done.state + 1
      AND ($4::int2[] IS NULL OR event.kind = ANY ($4::int2[]))
    OFFSET 0
) done ON true
ORDER BY event.seq

-- name: bounds
SELECT (SELECT value FROM jobs_fact WHERE name = $1), coalesce((SELECT max(seq) FROM jobs_event), 0)

-- name: oldest
SELECT seq, at_ms FROM jobs_event ORDER BY seq LIMIT $1

-- name: cut
DELETE FROM jobs_event WHERE seq <= $1

-- name: set_trimmed
INSERT INTO jobs_fact AS old (name, value) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET value = greatest(old.value, excluded.value)

-- name: subscribe
INSERT INTO jobs_subscription (tenant, name, filter, cursor, created_ms, advanced_ms)
VALUES ($1, $2, $3, $4, $5, $5)
ON CONFLICT (tenant, name) DO UPDATE SET name = excluded.name
RETURNING tenant, name, filter, cursor, created_ms, advanced_ms

-- name: put_subscription
INSERT INTO jobs_subscription (tenant, name, filter, cursor, created_ms, advanced_ms)
VALUES ($1, $2, $3, $4, $5, $5)
ON CONFLICT (tenant, name) DO UPDATE SET filter = excluded.filter
RETURNING tenant, name, filter, cursor, created_ms, advanced_ms

-- name: subscriptions
SELECT one.tenant, one.name, filter, cursor, one.created_ms, advanced_ms
FROM jobs_subscription one JOIN jobs_tenant tenant ON tenant.id = one.tenant
WHERE $1::text IS NULL OR tenant.name = $1::text
ORDER BY tenant.name, one.name

-- name: advance
UPDATE jobs_subscription SET
    cursor = greatest(cursor, $3::int8),
    advanced_ms = CASE WHEN $3::int8 > cursor THEN $4::int8 ELSE advanced_ms END
WHERE tenant = (SELECT id FROM jobs_tenant WHERE jobs_tenant.name = $1) AND name = $2
RETURNING cursor

-- name: unsubscribe
DELETE FROM jobs_subscription
WHERE tenant = (SELECT id FROM jobs_tenant WHERE jobs_tenant.name = $1) AND name = $2
