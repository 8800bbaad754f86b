DROP TABLE jobs_alive, jobs_throughput_delta, jobs_throughput, jobs_revival;
ALTER TABLE jobs_queue DROP COLUMN gone;
ALTER TABLE jobs_running DROP COLUMN renewed_ms;
DROP INDEX jobs_delivery_by_target;
ALTER TABLE jobs_delivery DROP COLUMN target;
ALTER TABLE jobs_schedule DROP COLUMN refused, DROP COLUMN refused_ms;
DROP INDEX jobs_key_by_job;
ALTER TABLE jobs_key DROP COLUMN ended, DROP COLUMN fingerprint;
