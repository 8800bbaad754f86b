DELETE FROM room_tags WHERE tag = $1
