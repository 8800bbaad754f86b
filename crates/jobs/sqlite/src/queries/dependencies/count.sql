SELECT count(*) FROM dependencies
