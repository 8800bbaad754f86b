-- The body of an ending is the job's own row, as long as that is the ending it tells of.
SELECT event.seq, event.kind, event.job, event.queue, event.tenant, event.attempt, event.data, job.kind,
       done.error, done.content_type, done.result, event.at_ms
FROM (
    SELECT * FROM jobs_event WHERE seq > $1::int8 AND ($3::int8 IS NULL OR job = $3::int8)
    ORDER BY seq LIMIT $2::int8
) event
LEFT JOIN jobs_job job ON job.id = event.job
LEFT JOIN jobs_done done ON done.id = event.job AND done.attempt = event.attempt AND event.kind = done.state + 1
ORDER BY event.seq
