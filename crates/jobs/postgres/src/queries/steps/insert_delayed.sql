INSERT INTO jobs_delayed SELECT * FROM json_populate_recordset(NULL::jobs_delayed, $1::text::json)
