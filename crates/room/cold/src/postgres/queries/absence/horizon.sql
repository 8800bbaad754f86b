-- Every transaction before the first number has ended; none from the second on had begun. Both count within
-- a timeline only: a standby that was promoted may give numbers again that its primary had given.
SELECT
    pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
    pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
    left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
