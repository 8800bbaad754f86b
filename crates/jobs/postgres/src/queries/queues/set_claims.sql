-- A row that somebody holds is passed over: the next claim will be noted.
UPDATE jobs_queue SET last_claim_ms = greatest(coalesce(last_claim_ms, 0), one.at_ms)
FROM (
    SELECT queue.id, given.at_ms
    FROM unnest($1::int4[], $2::int8[]) AS given (queue, at_ms) JOIN jobs_queue queue ON queue.id = given.queue
    ORDER BY queue.id FOR NO KEY UPDATE OF queue SKIP LOCKED
) one
WHERE jobs_queue.id = one.id
