-- Counts jobs of a queue that have not started, no further than a bound.
SELECT count(*) FROM (
    (SELECT FROM jobs_ready WHERE queue = $1::int4 LIMIT $2::int8)
    UNION ALL (SELECT FROM jobs_delayed WHERE queue = $1::int4 LIMIT $2::int8)
    UNION ALL (SELECT FROM jobs_blocked WHERE queue = $1::int4 LIMIT $2::int8)
) part
