WITH gone AS (
    DELETE FROM jobs_running
    WHERE id = ANY ($1::int8[]) AND nonce = ($2::int8[])[array_position($1::int8[], id)]
      AND attempt = ($3::int4[])[array_position($1::int8[], id)]
    RETURNING id, queue, tenant, rank, attempt, attempt_max, flags, nonce, worker, started_ms
)
SELECT gone.id, gone.queue, gone.tenant, gone.rank, attempt, attempt_max, flags, job.options, nonce, worker,
       started_ms
FROM gone CROSS JOIN LATERAL (SELECT options FROM jobs_job WHERE jobs_job.id = gone.id OFFSET 0) job
