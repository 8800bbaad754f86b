-- Hands out deliveries whose try is due; each is due again at $3 unless a report comes before.
WITH due AS MATERIALIZED (
    SELECT id FROM jobs_delivery WHERE state = 0 AND next_try_ms <= $1::int8
    ORDER BY next_try_ms, id LIMIT $2::int8 FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE jobs_delivery SET next_try_ms = $3::int8 WHERE id IN (SELECT id FROM due)
    RETURNING id, job, queue, tenant, seq, kind, attempt, webhook, state, tries, created_ms, next_try_ms
)
SELECT * FROM taken ORDER BY id
