-- Checks of the invariants; each returns what violates one.

-- name: places
-- Jobs in no table, or in more than one.
SELECT j.id, count(p.id)
FROM jobs j
LEFT JOIN (
    SELECT id FROM ready UNION ALL SELECT id FROM delayed UNION ALL SELECT id FROM blocked
    UNION ALL SELECT id FROM held UNION ALL SELECT id FROM running UNION ALL SELECT id FROM done
) p ON p.id = j.id
GROUP BY j.id
HAVING count(p.id) <> 1
LIMIT 10

-- name: strays
-- Rows of tables whose job does not exist.
SELECT p.place, p.id
FROM (
    SELECT 'ready' AS place, id FROM ready UNION ALL SELECT 'delayed', id FROM delayed
    UNION ALL SELECT 'blocked', id FROM blocked UNION ALL SELECT 'held', id FROM held
    UNION ALL SELECT 'running', id FROM running UNION ALL SELECT 'done', id FROM done
) p
WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE id = p.id)
LIMIT 10

-- name: taken
-- Concurrency keys whose count of taken slots is not the number of jobs that hold one.
WITH holders AS (
    SELECT j.queue AS queue, json_extract(j.options, '$.concurrency[0]') AS key, count(*) AS n
    FROM jobs j
    WHERE j.options IS NOT NULL AND json_extract(j.options, '$.concurrency[0]') IS NOT NULL
        AND (j.id IN (SELECT id FROM ready) OR j.id IN (SELECT id FROM running))
    GROUP BY 1, 2
)
SELECT p.key, p.taken, coalesce(h.n, 0)
FROM places p LEFT JOIN holders h ON h.queue = p.queue AND h.key = p.key
WHERE p.taken <> coalesce(h.n, 0)
UNION ALL
SELECT h.key, 0, h.n FROM holders h
WHERE NOT EXISTS (SELECT 1 FROM places p WHERE p.queue = h.queue AND p.key = h.key)
LIMIT 10

-- name: held
-- Jobs that wait for a slot though one is free.
SELECT h.id, h.key FROM held h
LEFT JOIN places p ON p.queue = h.queue AND p.key = h.key
WHERE p.key IS NULL OR p.taken < p.places
LIMIT 10

-- name: blocked
-- Jobs whose number of pending dependencies is wrong.
SELECT b.id, b.pending, count(d.parent)
FROM blocked b LEFT JOIN dependencies d ON d.child = b.id
GROUP BY b.id
HAVING b.pending <> count(d.parent)
LIMIT 10

-- name: counters
-- Counters that differ from the tables.
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

-- name: endings
-- Endings minus retries by an operator must be one for an ended job and zero for another. Only jobs whose
-- events are all in the log. Kinds: 4 retrying, 5 to 7 endings; a retry by an operator has no error.
SELECT j.id, count(e.seq) FILTER (WHERE e.kind IN (5, 6, 7)) AS endings,
    count(e.seq) FILTER (WHERE e.kind = 4 AND json_extract(e.data, '$.error') IS NULL) AS revivals,
    EXISTS (SELECT 1 FROM done d WHERE d.id = j.id) AS ended
FROM jobs j
LEFT JOIN events e ON e.job = j.id
WHERE j.seq_from >= ?1
GROUP BY j.id
HAVING endings - revivals <> ended
LIMIT 10

-- name: file
PRAGMA quick_check(10)
