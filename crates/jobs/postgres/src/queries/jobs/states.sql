-- 1 scheduled, 2 waiting, 3 running, else the ending; nothing for a job that is not there.
SELECT CASE
    WHEN job.id IS NULL THEN NULL
    ELSE coalesce(
        (SELECT state FROM jobs_done WHERE jobs_done.id = job.id),
        (SELECT 3::int2 FROM jobs_running WHERE jobs_running.id = job.id),
        (SELECT 1::int2 FROM jobs_delayed WHERE jobs_delayed.id = job.id),
        2::int2)
    END
FROM unnest($1::int8[]) WITH ORDINALITY AS asked (id, place)
LEFT JOIN jobs_job job ON job.id = asked.id
ORDER BY asked.place
