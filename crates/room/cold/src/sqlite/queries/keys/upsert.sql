INSERT INTO keys (tag_id, key, kind, expires_at_ms, generation, snap, payload, decoded)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (tag_id, key) DO UPDATE SET
    kind = excluded.kind,
    expires_at_ms = excluded.expires_at_ms,
    generation = excluded.generation,
    snap = excluded.snap,
    buried_at_ms = NULL,
    payload = excluded.payload,
    decoded = excluded.decoded;
