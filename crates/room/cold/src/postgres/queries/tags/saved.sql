-- Notes what was saved of tags that are locked. Later times win; a missing one changes nothing.
-- $1 tags  $2 generations  $3 snaps  $4 read_at_ms  $5 written_at_ms  $6 keys, $7 bytes and $8 tombstones
-- that came or went  $9 now
UPDATE room_tags AS tags
SET
    saved_generation = saved.generation,
    saved_snap = saved.snap,
    status = 1,
    read_at_ms = greatest(tags.read_at_ms, saved.read_at_ms),
    written_at_ms = greatest(tags.written_at_ms, saved.written_at_ms),
    saved_at_ms = $9::bigint,
    keys = tags.keys + saved.keys,
    bytes = tags.bytes + saved.bytes,
    tombstones = tags.tombstones + saved.tombstones
FROM unnest(
    $1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[]
) AS saved (tag, generation, snap, read_at_ms, written_at_ms, keys, bytes, tombstones)
WHERE tags.tag = saved.tag
