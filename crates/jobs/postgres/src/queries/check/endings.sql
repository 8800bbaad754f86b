-- Endings that the log tells twice without a retry in between, or not at all while it goes back far enough.
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
