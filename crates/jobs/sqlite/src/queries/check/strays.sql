-- Rows of places without their job.
SELECT p.place, p.id
FROM (
    SELECT 'ready' AS place, id FROM ready UNION ALL SELECT 'delayed', id FROM delayed
    UNION ALL SELECT 'blocked', id FROM blocked UNION ALL SELECT 'held', id FROM held
    UNION ALL SELECT 'running', id FROM running UNION ALL SELECT 'done', id FROM done
) p
WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE id = p.id)
LIMIT 10
