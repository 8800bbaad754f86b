-- Deliveries of events to webhooks, and their tries.

-- name: insert
INSERT INTO jobs_delivery (job, queue, tenant, seq, kind, attempt, webhook, target, state, tries, created_ms,
                           next_try_ms)
SELECT job, queue, tenant, seq, kind, attempt, webhook, target, state, tries, created_ms, next_try_ms
FROM json_populate_recordset(NULL::jobs_delivery, $1::text::json)
ORDER BY seq

-- name: targets
-- Targets after one in the order of tenants and targets, up to a number, and whether each has a due delivery. Skips
-- from target to target instead of scanning each.
WITH RECURSIVE spot AS (
    (SELECT tenant, target, 1 AS place FROM jobs_delivery
     WHERE state = 0 AND (tenant, target) > ($1::int4, $2::text) ORDER BY tenant, target LIMIT 1)
    UNION ALL
    SELECT next.tenant, next.target, spot.place + 1
    FROM spot CROSS JOIN LATERAL (
        SELECT tenant, target FROM jobs_delivery
        WHERE state = 0 AND (tenant, target) > (spot.tenant, spot.target) ORDER BY tenant, target LIMIT 1
    ) next
    WHERE spot.place < $4::int4
)
SELECT spot.tenant, spot.target, EXISTS (
    SELECT FROM jobs_delivery due
    WHERE due.state = 0 AND due.tenant = spot.tenant AND due.target = spot.target AND due.next_try_ms <= $3::int8
) FROM spot ORDER BY place

-- name: claim
-- Hands out due deliveries of targets, so many of each; each is due again at $2 unless it is reported before.
WITH due AS MATERIALIZED (
    SELECT found.id
    FROM unnest($3::int4[], $4::text[], $5::int8[]) AS share (tenant, target, jobs)
    CROSS JOIN LATERAL (
        SELECT id FROM jobs_delivery
        WHERE state = 0 AND tenant = share.tenant AND target = share.target AND next_try_ms <= $1::int8
        ORDER BY next_try_ms, id LIMIT share.jobs FOR UPDATE SKIP LOCKED
    ) found
), taken AS (
    UPDATE jobs_delivery SET next_try_ms = $2::int8 WHERE id IN (SELECT id FROM due)
    RETURNING id, job, queue, tenant, seq, kind, attempt, webhook, target, state, tries, created_ms, next_try_ms
)
SELECT * FROM taken ORDER BY id

-- name: put_off
UPDATE jobs_delivery d SET next_try_ms = item.at_ms
FROM unnest($1::int8[], $2::int4[], $3::int8[]) AS item (id, tries, at_ms)
WHERE d.id = item.id AND d.tries = item.tries AND d.state = 0

-- name: report
-- Records a try, if it is the next one of its delivery.
WITH taken AS (
    UPDATE jobs_delivery SET state = $3::int2, tries = tries + 1, next_try_ms = coalesce($4::int8, next_try_ms)
    WHERE id = $1::int8 AND tries + 1 = $2::int4
    RETURNING id
), noted AS (
    INSERT INTO jobs_delivery_try (delivery, number, at_ms, latency_ms, status, error, reply)
    SELECT id, $2::int4, $5::int8, $6::int8, $7::int4, $8::text, $9::bytea FROM taken
    ON CONFLICT DO NOTHING
)
SELECT id FROM taken

-- name: list
SELECT id, job, queue, tenant, seq, kind, attempt, webhook, target, state, tries, created_ms, next_try_ms
FROM jobs_delivery
WHERE ($1::int4 IS NULL OR tenant = $1::int4) AND ($2::int4 IS NULL OR queue = $2::int4)
  AND ($3::int8 IS NULL OR job = $3::int8) AND ($4::int2 IS NULL OR state = $4::int2)
  AND ($5::int8 IS NULL OR created_ms >= $5::int8) AND id < $6::int8
  AND ($8::int8 IS NULL OR id = $8::int8)
ORDER BY id DESC LIMIT $7::int8

-- name: of_job
SELECT id, job, queue, tenant, seq, kind, attempt, webhook, target, state, tries, created_ms, next_try_ms
FROM jobs_delivery WHERE job = $1 ORDER BY id

-- name: replay
UPDATE jobs_delivery SET state = 0, next_try_ms = $6::int8
WHERE id IN (
    SELECT id FROM jobs_delivery
    WHERE ($1::int4 IS NULL OR tenant = $1::int4) AND ($2::int4 IS NULL OR queue = $2::int4)
      AND ($3::int8 IS NULL OR job = $3::int8) AND ($4::int2 IS NULL OR state = $4::int2)
      AND ($5::int8 IS NULL OR created_ms >= $5::int8) AND ($8::int8 IS NULL OR id = $8::int8)
    ORDER BY id LIMIT $7::int8
)

-- name: tries
SELECT delivery, number, at_ms, latency_ms, status, error, reply FROM jobs_delivery_try
WHERE delivery = ANY ($1::int8[]) ORDER BY delivery, number
