-- The log of events, and subscriptions to it.

-- name: insert
INSERT INTO events (seq, job, queue, tenant, kind, attempt, at_ms, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)

-- name: after
-- The body of an ending is in the row of the job, as long as that is the ending of the event.
SELECT e.seq, e.job, e.queue, e.tenant, e.kind, e.attempt, e.at_ms, e.data, j.kind, d.error, d.content_type, d.result
FROM (SELECT * FROM events WHERE seq > ?1 ORDER BY seq LIMIT ?2) e
LEFT JOIN jobs j ON j.id = e.job
LEFT JOIN done d ON d.id = e.job AND d.attempt = e.attempt AND e.kind = d.state + 1
ORDER BY e.seq

-- name: head
SELECT max(seq) FROM events

-- name: oldest
SELECT seq, at_ms FROM events ORDER BY seq LIMIT ?1

-- name: cut
DELETE FROM events WHERE seq <= ?1

-- name: first_of_job
SELECT seq_from FROM jobs WHERE id = ?1

-- name: subscribe
INSERT OR IGNORE INTO subscriptions (tenant, name, filter, cursor, created_ms, advanced_ms)
VALUES (?1, ?2, ?3, ?4, ?5, ?5)

-- name: set_filter
UPDATE subscriptions SET filter = ?3 WHERE tenant = ?1 AND name = ?2

-- name: find_subscription
SELECT t.name, s.name, s.filter, s.cursor, s.created_ms, s.advanced_ms
FROM subscriptions s JOIN tenants t ON t.num = s.tenant
WHERE s.tenant = ?1 AND s.name = ?2

-- name: subscriptions
SELECT t.name, s.name, s.filter, s.cursor, s.created_ms, s.advanced_ms
FROM subscriptions s JOIN tenants t ON t.num = s.tenant
WHERE ?1 IS NULL OR t.name = ?1
ORDER BY t.name, s.name

-- name: advance
UPDATE subscriptions SET cursor = ?3, advanced_ms = ?4 WHERE tenant = ?1 AND name = ?2 AND cursor < ?3

-- name: unsubscribe
DELETE FROM subscriptions WHERE tenant = ?1 AND name = ?2
