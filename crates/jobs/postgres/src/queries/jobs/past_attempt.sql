-- How an attempt ended: its end, its error, and for a success that is still the job's ending, the result.
SELECT ending, error, NULL::bool, NULL::text, NULL::bytea FROM jobs_attempt
WHERE id = $1::int8 AND number = $2::int4 AND nonce = $3::int8
UNION ALL
SELECT 1::int2, NULL, true, content_type, result FROM jobs_done
WHERE id = $1::int8 AND attempt = $2::int4 AND nonce = $3::int8
