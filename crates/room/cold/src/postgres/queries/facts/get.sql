SELECT value FROM room_facts WHERE name = $1
