SELECT queue, sum(enqueued)::int8, sum(started)::int8, sum(succeeded)::int8, sum(failed)::int8,
       sum(cancelled)::int8, sum(attempts_failed)::int8, sum(leases_lost)::int8, sum(late_reports)::int8
FROM jobs_passed WHERE queue = ANY ($1::int4[]) GROUP BY queue
