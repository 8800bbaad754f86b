-- Comes last in a transaction: whoever waits for the row holds nothing that its holder still wants.
-- $1 tags  $2 keys  $3 tombstones  $4 bytes  $5 generation and $6 snap of the newest
INSERT INTO room_totals AS totals (part, tags, keys, tombstones, bytes, newest_generation, newest_snap)
VALUES (pg_backend_pid() % 64, $1, $2, $3, $4, $5, $6)
ON CONFLICT (part) DO UPDATE SET
    tags = totals.tags + excluded.tags,
    keys = totals.keys + excluded.keys,
    tombstones = totals.tombstones + excluded.tombstones,
    bytes = totals.bytes + excluded.bytes,
    newest_generation = CASE
        WHEN (excluded.newest_generation, excluded.newest_snap) > (totals.newest_generation, totals.newest_snap)
        THEN excluded.newest_generation ELSE totals.newest_generation END,
    newest_snap = CASE
        WHEN (excluded.newest_generation, excluded.newest_snap) > (totals.newest_generation, totals.newest_snap)
        THEN excluded.newest_snap ELSE totals.newest_snap END
