-- Checks of the invariants; each returns what violates one.

-- name: places
-- Jobs in no table, or in several.
SELECT 'job ' || job.id || ' is in ' || count(place.id) || ' places'
FROM jobs_job job
LEFT JOIN (
    SELECT id FROM jobs_ready UNION ALL SELECT id FROM jobs_delayed UNION ALL SELECT id FROM jobs_blocked
    UNION ALL SELECT id FROM jobs_running UNION ALL SELECT id FROM jobs_done
) place ON place.id = job.id
GROUP BY job.id HAVING count(place.id) <> 1
LIMIT 100

-- name: strays
-- Rows of tables whose job does not exist.
SELECT 'job ' || place.id || ' is in a place but has no row'
FROM (
    SELECT id FROM jobs_ready UNION ALL SELECT id FROM jobs_delayed UNION ALL SELECT id FROM jobs_blocked
    UNION ALL SELECT id FROM jobs_running UNION ALL SELECT id FROM jobs_done
) place
WHERE NOT EXISTS (SELECT FROM jobs_job WHERE jobs_job.id = place.id)
LIMIT 100

-- name: taken
-- Concurrency keys whose count of taken slots is not the number of jobs that hold one.
SELECT 'key ' || place.key || ' counts ' || place.taken || ' places taken of ' || place.most || ', jobs hold '
       || holders.jobs
FROM jobs_place place
CROSS JOIN LATERAL (
    SELECT count(*) AS jobs FROM jobs_job job
    WHERE job.queue = place.queue AND job.options::json -> 'concurrency' ->> 0 = place.key
      AND (EXISTS (SELECT FROM jobs_running WHERE jobs_running.id = job.id)
           OR EXISTS (SELECT FROM jobs_ready WHERE jobs_ready.id = job.id))
) holders
WHERE place.taken <> holders.jobs
LIMIT 100

-- name: blocked
-- Jobs whose number of pending dependencies is wrong.
SELECT 'job ' || blocked.id || ' waits for ' || blocked.pending || ' jobs, ' || parents.jobs || ' are known'
FROM jobs_blocked blocked
CROSS JOIN LATERAL (SELECT count(*) AS jobs FROM jobs_dependency WHERE dependent = blocked.id) parents
WHERE blocked.pending <> parents.jobs
LIMIT 100

-- name: attempts
-- Jobs with more attempts than allowed, in any table.
SELECT 'job ' || id || ' is at attempt ' || attempt || ' of ' || attempt_max
FROM (
    SELECT id, attempt, attempt_max FROM jobs_running UNION ALL SELECT id, attempt, attempt_max FROM jobs_done
    UNION ALL SELECT id, attempt + 1, attempt_max FROM jobs_ready
    UNION ALL SELECT id, attempt + 1, attempt_max FROM jobs_delayed
    UNION ALL SELECT id, attempt + 1, attempt_max FROM jobs_blocked
) place
WHERE attempt > attempt_max
LIMIT 100

-- name: endings
-- Jobs with two endings in a row without a retry in between, or without an event of their ending while the log
-- is complete.
SELECT 'job ' || job || ' has ended twice in a row, at ' || before || ' and ' || seq
FROM (
    SELECT job, kind, seq, lag(kind) OVER told AS kind_before, lag(seq) OVER told AS before
    FROM jobs_event WHERE kind IN (4, 5, 6, 7) WINDOW told AS (PARTITION BY job ORDER BY seq)
) told
WHERE kind IN (5, 6, 7) AND kind_before IN (5, 6, 7)
UNION ALL
SELECT 'job ' || done.id || ' has ended and no event tells of it'
FROM jobs_done done
WHERE NOT EXISTS (SELECT FROM jobs_event WHERE job = done.id AND kind = done.state + 1)
  AND NOT EXISTS (SELECT FROM jobs_fact WHERE name = 'log-trimmed')
LIMIT 100
