SELECT parent, succeeded FROM resolving ORDER BY parent LIMIT 1
