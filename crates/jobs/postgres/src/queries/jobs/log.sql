-- Adds log lines to a running job, $6::int8 of which were too many to begin with, and keeps only the newest.
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
