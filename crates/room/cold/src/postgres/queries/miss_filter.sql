-- name: horizon
-- Every transaction before the first number has ended; none from the second on had begun. Both count within
-- a timeline only: a standby that was promoted may give numbers again that its primary had given.
SELECT
    pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
    pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
    left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)

-- name: list_after
SELECT tag FROM room_tags WHERE tag > $1 ORDER BY tag LIMIT $2

-- name: list_first
SELECT tag FROM room_tags ORDER BY tag LIMIT $1

-- name: made_since
-- Tags that were made by this transaction or later.
-- $1 transaction
SELECT tag FROM room_tags WHERE made_by >= $1::text::xid8
