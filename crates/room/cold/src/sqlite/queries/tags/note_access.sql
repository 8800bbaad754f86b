-- Later times win; a missing one changes nothing.
UPDATE tags SET
    read_at_ms = max(coalesce(read_at_ms, ?2), coalesce(?2, read_at_ms)),
    written_at_ms = max(coalesce(written_at_ms, ?3), coalesce(?3, written_at_ms))
WHERE tag = ?1;
