SELECT key, kind, expires_at_ms, payload FROM room_keys WHERE tag = $1
