-- Counts that are not what there is.
WITH there AS (
    SELECT j.queue AS queue, j.tenant AS tenant,
        count(w.id) AS scheduled, count(x.id) AS running,
        count(*) FILTER (WHERE d.state = 4) AS succeeded, count(*) FILTER (WHERE d.state = 5) AS failed,
        count(*) FILTER (WHERE d.state = 6) AS cancelled,
        count(b.id) + count(h.id) AS blocked, count(*) AS jobs
    FROM jobs j
    LEFT JOIN delayed w ON w.id = j.id LEFT JOIN running x ON x.id = j.id LEFT JOIN done d ON d.id = j.id
    LEFT JOIN blocked b ON b.id = j.id LEFT JOIN held h ON h.id = j.id
    GROUP BY j.queue, j.tenant
)
SELECT c.queue, c.tenant
FROM counters c LEFT JOIN there t ON t.queue = c.queue AND t.tenant = c.tenant
WHERE c.scheduled <> coalesce(t.scheduled, 0) OR c.running <> coalesce(t.running, 0)
    OR c.succeeded <> coalesce(t.succeeded, 0) OR c.failed <> coalesce(t.failed, 0)
    OR c.cancelled <> coalesce(t.cancelled, 0) OR c.blocked <> coalesce(t.blocked, 0)
    OR c.scheduled + c.ready + c.blocked + c.running + c.succeeded + c.failed + c.cancelled <> coalesce(t.jobs, 0)
LIMIT 10
