WITH old AS MATERIALIZED (
    SELECT queue, tenant, key FROM jobs_key WHERE expires_ms <= $1::int8
    ORDER BY expires_ms LIMIT $2::int8 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM jobs_key USING old
    WHERE jobs_key.queue = old.queue AND jobs_key.tenant = old.tenant AND jobs_key.key = old.key
    RETURNING 1
), unused AS (
    DELETE FROM jobs_place
    WHERE taken = 0 AND NOT EXISTS (SELECT FROM jobs_blocked WHERE place = jobs_place.id)
)
SELECT count(*) FROM gone
