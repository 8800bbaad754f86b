DELETE FROM jobs_unique WHERE id = ANY ($1::int8[])
