SELECT min(next_try_ms) FROM deliveries WHERE state = 1
