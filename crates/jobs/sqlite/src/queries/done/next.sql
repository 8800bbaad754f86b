SELECT min(purge_at_ms) FROM done
