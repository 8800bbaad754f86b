-- Notes a late report on its job, if that is there, and keeps only the newest.
WITH job AS (
    SELECT id, queue FROM jobs_job WHERE id = $1::int8
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
SELECT queue FROM numbered
