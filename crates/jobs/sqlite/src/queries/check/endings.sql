-- Endings less retries by hand must be one for a job that has ended and none for another. Only jobs whose
-- events are all there. Kinds: 4 retrying, 5 to 7 endings; a retry by hand has no error.
SELECT j.id, count(e.seq) FILTER (WHERE e.kind IN (5, 6, 7)) AS endings,
    count(e.seq) FILTER (WHERE e.kind = 4 AND json_extract(e.data, '$.error') IS NULL) AS revivals,
    EXISTS (SELECT 1 FROM done d WHERE d.id = j.id) AS ended
FROM jobs j
LEFT JOIN events e ON e.job = j.id
WHERE j.seq_from >= ?1
GROUP BY j.id
HAVING endings - revivals <> ended
LIMIT 10
