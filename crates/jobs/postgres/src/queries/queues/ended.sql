SELECT queue, state, count(*) FROM jobs_done WHERE queue = ANY ($1::int4[]) GROUP BY queue, state
