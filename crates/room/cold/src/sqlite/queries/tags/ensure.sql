INSERT INTO tags (tag, generation) VALUES (?1, 1) ON CONFLICT (tag) DO NOTHING;
