INSERT INTO room_facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING
