DELETE FROM tags WHERE (saved_generation, saved_snap) <= (?1, ?2);
