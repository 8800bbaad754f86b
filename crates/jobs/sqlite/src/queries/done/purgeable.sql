SELECT d.id, d.state, j.queue, j.tenant
FROM done d JOIN jobs j ON j.id = d.id
WHERE d.purge_at_ms <= ?1
    AND NOT EXISTS (SELECT 1 FROM deliveries v WHERE v.job = d.id AND v.state = 1)
ORDER BY d.purge_at_ms
LIMIT ?2
