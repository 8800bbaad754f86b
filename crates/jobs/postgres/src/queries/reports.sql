-- What workers report: attempts, progress, log lines, and reports that came too late.

-- name: insert_attempts
INSERT INTO jobs_attempt SELECT * FROM json_populate_recordset(NULL::jobs_attempt, $1::text::json)

-- name: find_attempt
-- The end of an attempt, its error, and for a success that is still the ending of the job, the result.
SELECT ending, error, NULL::bool, NULL::text, NULL::bytea FROM jobs_attempt
WHERE id = $1::int8 AND number = $2::int4 AND nonce = $3::int8
UNION ALL
SELECT 1::int2, NULL, true, content_type, result FROM jobs_done
WHERE id = $1::int8 AND attempt = $2::int4 AND nonce = $3::int8

-- name: attempts
SELECT number, worker, started_ms, ended_ms, ending, error FROM jobs_attempt WHERE id = $1 ORDER BY number

-- name: put_progress
-- Stores the progress of a running job; returns the job, and whether an event is due.
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

-- name: progress
SELECT per_mille, message, data, at_ms FROM jobs_progress WHERE id = $1

-- name: insert_log_lines
-- Appends log lines to a running job, after $6::int8 lines that exceeded the limit, and keeps only the newest.
WITH lease AS (
    SELECT id FROM jobs_running WHERE id = $2::int8 AND nonce = $3::int8 AND attempt = $4::int4 FOR NO KEY UPDATE
), last AS (
    SELECT coalesce((SELECT max(number) FROM jobs_log WHERE jobs_log.id = $2::int8), 0) + $6::int8 AS number
), added AS (
    INSERT INTO jobs_log (id, number, at_ms, attempt, text)
    SELECT lease.id, last.number + line.place, $1::int8, $4::int4, line.text
    FROM lease, last, unnest($5::text[]) WITH ORDINALITY AS line (text, place)
), cut AS (
    DELETE FROM jobs_log
    WHERE id = (SELECT id FROM lease) AND number <= (SELECT number FROM last) + cardinality($5::text[]) - $7::int8
)
SELECT id FROM lease

-- name: log_lines
SELECT number, at_ms, attempt, text FROM jobs_log WHERE id = $1 AND number > $2 ORDER BY number LIMIT $3

-- name: insert_late_report
-- Records a late report on its job, if that exists, and keeps only the newest.
WITH job AS (
    SELECT id, queue, tenant FROM jobs_job WHERE id = $1::int8
), counted AS (
    INSERT INTO jobs_throughput_delta (queue, tenant, late_reports) SELECT queue, tenant, 1 FROM job
), numbered AS (
    SELECT job.id, job.queue, coalesce((SELECT max(number) FROM jobs_late WHERE jobs_late.id = $1::int8), 0) + 1 AS number
    FROM job
), noted AS (
    INSERT INTO jobs_late (id, number, at_ms, attempt, what, why)
    SELECT id, number, $2::int8, $3::int4, $4::text, $5::text FROM numbered
    ON CONFLICT DO NOTHING
), cut AS (
    DELETE FROM jobs_late WHERE id = $1::int8 AND number <= (SELECT number FROM numbered) - $6::int8
)
SELECT number FROM numbered

-- name: late_reports
SELECT number, at_ms, attempt, what, why FROM jobs_late WHERE id = $1 ORDER BY number
