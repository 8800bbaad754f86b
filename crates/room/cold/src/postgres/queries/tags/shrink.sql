-- $1 tags  $2 keys, $3 bytes and $4 tombstones that went
UPDATE room_tags AS tags
SET
    keys = tags.keys - gone.keys,
    bytes = tags.bytes - gone.bytes,
    tombstones = tags.tombstones - gone.tombstones
FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[]) AS gone (tag, keys, bytes, tombstones)
WHERE tags.tag = gone.tag
