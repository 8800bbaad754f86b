-- Tags that were made by this transaction or later.
-- $1 transaction
SELECT tag FROM room_tags WHERE made_by >= $1::text::xid8
