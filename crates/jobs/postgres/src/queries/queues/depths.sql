-- Jobs of queues by place, ready ones up to a bound, and when the first of the ready ones was registered.
SELECT queue.id,
       (SELECT count(*) FROM jobs_delayed WHERE jobs_delayed.queue = queue.id),
       (SELECT count(*) FROM (SELECT FROM jobs_ready WHERE jobs_ready.queue = queue.id LIMIT $2::int8) part),
       (SELECT count(*) FROM jobs_blocked WHERE jobs_blocked.queue = queue.id),
       (SELECT count(*) FROM jobs_running WHERE jobs_running.queue = queue.id),
       (SELECT min(job.created_ms)
        FROM (SELECT DISTINCT tenant, rank FROM
                (SELECT tenant, rank FROM jobs_ready WHERE jobs_ready.queue = queue.id LIMIT $2::int8) part) party
        CROSS JOIN LATERAL (
            SELECT id FROM jobs_ready ready
            WHERE ready.queue = queue.id AND ready.tenant = party.tenant AND ready.rank = party.rank
            ORDER BY pos LIMIT 1
        ) first
        JOIN jobs_job job ON job.id = first.id)
FROM unnest($1::int4[]) AS queue (id)
