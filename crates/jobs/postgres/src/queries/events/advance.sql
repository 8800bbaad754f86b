UPDATE jobs_subscription SET
    cursor = greatest(cursor, $3::int8),
    advanced_ms = CASE WHEN $3::int8 > cursor THEN $4::int8 ELSE advanced_ms END
WHERE tenant = (SELECT id FROM jobs_tenant WHERE jobs_tenant.name = $1) AND name = $2
RETURNING cursor
