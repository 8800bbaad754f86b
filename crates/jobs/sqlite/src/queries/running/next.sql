SELECT min(lease_until_ms) FROM running
