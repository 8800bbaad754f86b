UPDATE jobs_running SET lease_until_ms = greatest(lease_until_ms, $1::int8 + coalesce($5::int8, lease_ms))
WHERE id = $2::int8 AND nonce = $3::int8 AND attempt = $4::int4
RETURNING lease_until_ms
