-- Later times win; a missing one changes nothing.
UPDATE tags SET
    saved_generation = ?2,
    saved_snap = ?3,
    status = 1,
    read_at_ms = max(coalesce(read_at_ms, ?4), coalesce(?4, read_at_ms)),
    written_at_ms = max(coalesce(written_at_ms, ?5), coalesce(?5, written_at_ms)),
    saved_at_ms = ?6,
    keys = ?7,
    bytes = ?8,
    tombstones = ?9
WHERE id = ?1;
