SELECT j.queue, j.tenant, j.priority,
    EXISTS (SELECT 1 FROM running WHERE id = ?1),
    (SELECT state FROM done WHERE id = ?1),
    EXISTS (SELECT 1 FROM delayed WHERE id = ?1)
FROM jobs j WHERE j.id = ?1
