UPDATE jobs_delivery SET state = 0, next_try_ms = $6::int8
WHERE id IN (
    SELECT id FROM jobs_delivery
    WHERE ($1::int4 IS NULL OR tenant = $1::int4) AND ($2::int4 IS NULL OR queue = $2::int4)
      AND ($3::int8 IS NULL OR job = $3::int8) AND ($4::int2 IS NULL OR state = $4::int2)
      AND ($5::int8 IS NULL OR created_ms >= $5::int8) AND ($8::int8 IS NULL OR id = $8::int8)
    ORDER BY id LIMIT $7::int8
)
