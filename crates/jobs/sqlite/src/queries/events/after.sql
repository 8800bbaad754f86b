-- The body of an ending is the job's own row, as long as that is the ending it tells of.
SELECT e.seq, e.job, e.queue, e.tenant, e.kind, e.attempt, e.at_ms, e.data, j.kind, d.error, d.content_type, d.result
FROM (SELECT * FROM events WHERE seq > ?1 ORDER BY seq LIMIT ?2) e
LEFT JOIN jobs j ON j.id = e.job
LEFT JOIN done d ON d.id = e.job AND d.attempt = e.attempt AND e.kind = d.state + 1
ORDER BY e.seq
