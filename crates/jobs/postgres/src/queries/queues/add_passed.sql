INSERT INTO jobs_passed AS passed (queue, server, enqueued, started, succeeded, failed, cancelled, attempts_failed,
                                   leases_lost, late_reports)
SELECT queue, $1, enqueued, started, succeeded, failed, cancelled, attempts_failed, leases_lost, late_reports
FROM unnest($2::int4[], $3::int8[], $4::int8[], $5::int8[], $6::int8[], $7::int8[], $8::int8[], $9::int8[],
            $10::int8[])
    AS one (queue, enqueued, started, succeeded, failed, cancelled, attempts_failed, leases_lost, late_reports)
ON CONFLICT (queue, server) DO UPDATE SET
    enqueued = passed.enqueued + excluded.enqueued,
    started = passed.started + excluded.started,
    succeeded = passed.succeeded + excluded.succeeded,
    failed = passed.failed + excluded.failed,
    cancelled = passed.cancelled + excluded.cancelled,
    attempts_failed = passed.attempts_failed + excluded.attempts_failed,
    leases_lost = passed.leases_lost + excluded.leases_lost,
    late_reports = passed.late_reports + excluded.late_reports
