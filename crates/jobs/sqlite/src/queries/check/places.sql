-- Jobs that are in no place, or in more than one.
SELECT j.id, count(p.id)
FROM jobs j
LEFT JOIN (
    SELECT id FROM ready UNION ALL SELECT id FROM delayed UNION ALL SELECT id FROM blocked
    UNION ALL SELECT id FROM held UNION ALL SELECT id FROM running UNION ALL SELECT id FROM done
) p ON p.id = j.id
GROUP BY j.id
HAVING count(p.id) <> 1
LIMIT 10
