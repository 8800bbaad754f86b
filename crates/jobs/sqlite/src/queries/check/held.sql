-- Jobs that wait for a place though one is free.
SELECT h.id, h.key FROM held h
LEFT JOIN places p ON p.queue = h.queue AND p.key = h.key
WHERE p.key IS NULL OR p.taken < p.places
LIMIT 10
