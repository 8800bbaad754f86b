UPDATE running SET lease_until_ms = max(lease_until_ms, ?4 + coalesce(?5, lease_ms))
WHERE id = ?1 AND attempt = ?2 AND nonce = ?3
RETURNING lease_until_ms
