SELECT tag FROM room_tags ORDER BY tag LIMIT $1
