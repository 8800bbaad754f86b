INSERT INTO jobs_attempt SELECT * FROM json_populate_recordset(NULL::jobs_attempt, $1::text::json)
