SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%';
