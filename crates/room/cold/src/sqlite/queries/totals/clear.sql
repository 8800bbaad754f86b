UPDATE totals SET tags = 0, keys = 0, tombstones = 0, bytes = 0;
