SELECT tag FROM room_tags WHERE tag > $1 ORDER BY tag LIMIT $2
