DROP TABLE jobs_fact, jobs_token, jobs_schedule, jobs_delivery_try, jobs_delivery, jobs_subscription, jobs_event,
    jobs_resolve, jobs_dependency, jobs_place, jobs_unique, jobs_key, jobs_late, jobs_log, jobs_progress,
    jobs_attempt, jobs_done, jobs_running, jobs_blocked, jobs_delayed, jobs_moved, jobs_ready, jobs_job,
    jobs_passed, jobs_queue, jobs_tenant;
DROP SEQUENCE jobs_event_seq, jobs_server_number;
