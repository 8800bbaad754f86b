-- Makes jobs ready, and notes where they are now.
WITH given AS MATERIALIZED (
    SELECT * FROM json_populate_recordset(NULL::jobs_ready, $1::text::json)
), moved AS (
    INSERT INTO jobs_moved (id, pos) SELECT id, pos FROM given
    ON CONFLICT (id) DO UPDATE SET pos = excluded.pos
)
INSERT INTO jobs_ready SELECT * FROM given
