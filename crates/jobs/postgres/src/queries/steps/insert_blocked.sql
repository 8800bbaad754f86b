INSERT INTO jobs_blocked SELECT * FROM json_populate_recordset(NULL::jobs_blocked, $1::text::json)
