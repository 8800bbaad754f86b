DELETE FROM room_keys WHERE tag = $1
