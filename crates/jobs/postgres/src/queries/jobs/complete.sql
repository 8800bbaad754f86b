-- Ends jobs as succeeded that need nothing but that: of queues in $7 (kept for $8), without special flags. The
-- fence is written so that only a lookup by key is possible. Ids are distinct. What is missing in the answer
-- was not ended here.
WITH gone AS (
    DELETE FROM jobs_running
    WHERE id = ANY ($2::int8[]) AND nonce = ($3::int8[])[array_position($2::int8[], id)]
      AND attempt = ($4::int4[])[array_position($2::int8[], id)] AND flags & $9::int2 = 0 AND queue = ANY ($7::int4[])
    RETURNING id, queue, tenant, attempt, attempt_max, flags, nonce, worker, started_ms
), ended AS (
    INSERT INTO jobs_done (id, queue, tenant, state, attempt, attempt_max, flags, nonce, worker, started_ms,
                           ended_ms, content_type, result, purge_at_ms)
    SELECT id, queue, tenant, 4, attempt, attempt_max, flags, nonce, worker, started_ms, $1::int8,
           ($5::text[])[array_position($2::int8[], id)], ($6::bytea[])[array_position($2::int8[], id)],
           $1::int8 + ($8::int8[])[array_position($7::int4[], queue)]
    FROM gone
    RETURNING id
), told AS (
    INSERT INTO jobs_resolve (id)
    SELECT DISTINCT on_job FROM jobs_dependency WHERE on_job = ANY (ARRAY(SELECT id FROM ended))
    ON CONFLICT DO NOTHING
    RETURNING id
), gate AS MATERIALIZED (
    SELECT pg_advisory_xact_lock(7953761907321733121)
    FROM (SELECT count(*) AS jobs FROM ended) a, (SELECT count(*) FROM told) b
    WHERE jobs > 0
), logged AS (
    INSERT INTO jobs_event (seq, kind, job, queue, tenant, attempt, at_ms)
    SELECT nextval('jobs_event_seq'), 5, id, queue, tenant, attempt, $1::int8
    FROM (SELECT gone.* FROM gate, gone ORDER BY array_position($2::int8[], gone.id)) one
    RETURNING seq
)
SELECT id, queue, (SELECT max(seq) FROM logged), (SELECT count(*) FROM told) FROM gone
