SELECT tags, keys, tombstones, bytes, newest_generation, newest_snap FROM totals;
