SELECT newest_generation, newest_snap
FROM room_totals
ORDER BY newest_generation DESC, newest_snap DESC
LIMIT 1
