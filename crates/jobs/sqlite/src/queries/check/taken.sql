-- Places under keys whose count is not the number of jobs that hold one.
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
