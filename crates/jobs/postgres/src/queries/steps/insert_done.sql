INSERT INTO jobs_done SELECT * FROM json_populate_recordset(NULL::jobs_done, $1::text::json)
