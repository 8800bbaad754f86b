INSERT INTO jobs_resolve (id)
SELECT DISTINCT on_job FROM jobs_dependency JOIN jobs_done ON jobs_done.id = on_job LIMIT $1
ON CONFLICT DO NOTHING
