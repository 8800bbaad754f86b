-- Removes tags without any key or tombstone that were last saved long enough ago.
-- $1 the transaction before the first  $2 the last  $3 generation and $4 snap of the newest that may go
DELETE FROM room_tags
WHERE made_by > $1::text::xid8 AND made_by <= $2::text::xid8 AND keys = 0 AND tombstones = 0
  AND (saved_generation, saved_snap) <= ($3, $4)
