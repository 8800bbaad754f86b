-- Numbers events behind the gate. Nothing but the commit may come after.
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
