-- Notes how far a running job has come; tells of it, and whether it is time for an event.
WITH lease AS (
    SELECT id, queue, tenant, rank, attempt, attempt_max, flags FROM jobs_running
    WHERE id = $2::int8 AND nonce = $3::int8 AND attempt = $4::int4
    FOR KEY SHARE
), before AS (
    SELECT event_ms FROM jobs_progress WHERE id = $2::int8
), noted AS (
    INSERT INTO jobs_progress AS old (id, per_mille, message, data, at_ms, event_ms)
    SELECT id, $5::int2, $6::text, $7::text, $1::int8, $1::int8 FROM lease
    ON CONFLICT (id) DO UPDATE SET
        per_mille = excluded.per_mille, message = excluded.message, data = excluded.data, at_ms = excluded.at_ms,
        event_ms = CASE WHEN old.event_ms + $8::int8 <= excluded.at_ms THEN excluded.at_ms ELSE old.event_ms END
)
SELECT lease.id, lease.queue, lease.tenant, lease.rank, attempt, attempt_max, flags, job.options,
       coalesce((SELECT event_ms + $8::int8 <= $1::int8 FROM before), true)
FROM lease JOIN jobs_job job ON job.id = lease.id
