-- Notes a try, if it is the next one of its delivery.
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
