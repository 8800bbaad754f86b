INSERT INTO keys (tag_id, key, generation, snap, buried_at_ms)
VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (tag_id, key) DO UPDATE SET
    kind = NULL,
    expires_at_ms = NULL,
    generation = excluded.generation,
    snap = excluded.snap,
    buried_at_ms = excluded.buried_at_ms,
    payload = NULL,
    decoded = NULL;
