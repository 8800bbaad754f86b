SELECT coalesce(min(id), 0), coalesce(max(id), 0) FROM tags;
