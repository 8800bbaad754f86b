DELETE FROM jobs_resolve WHERE id = ANY ($1::int8[])
