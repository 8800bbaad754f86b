UPDATE totals SET tags = tags + ?1, keys = keys + ?2, tombstones = tombstones + ?3, bytes = bytes + ?4;
