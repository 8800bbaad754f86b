INSERT INTO jobs_delivery (job, queue, tenant, seq, kind, attempt, webhook, state, tries, created_ms, next_try_ms)
SELECT job, queue, tenant, seq, kind, attempt, webhook, state, tries, created_ms, next_try_ms
FROM json_populate_recordset(NULL::jobs_delivery, $1::text::json)
ORDER BY seq
