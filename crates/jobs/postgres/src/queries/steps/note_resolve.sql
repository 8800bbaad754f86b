INSERT INTO jobs_resolve (id)
SELECT DISTINCT on_job FROM jobs_dependency WHERE on_job = ANY ($1::int8[])
ON CONFLICT DO NOTHING
