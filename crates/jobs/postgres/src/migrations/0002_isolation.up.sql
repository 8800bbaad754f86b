-- Shares of tenants and targets, keys that outlive their jobs, leases that survive steps of the clock, counters
-- that survive a kill. Compatible: servers of the version before go on.

-- What a registration held, so that a repeat with another content is noticed; and how the job had ended when it
-- was removed: 4 succeeded, 5 failed, 6 cancelled.
ALTER TABLE jobs_key ADD COLUMN fingerprint bytea, ADD COLUMN ended int2;
CREATE INDEX jobs_key_by_job ON jobs_key (id);

-- The last run of a schedule that was refused, and why.
ALTER TABLE jobs_schedule ADD COLUMN refused_ms int8, ADD COLUMN refused text;

-- Where a delivery goes: scheme, host and port. Empty for deliveries from before there was this column.
ALTER TABLE jobs_delivery ADD COLUMN target text NOT NULL DEFAULT '';
CREATE INDEX jobs_delivery_by_target ON jobs_delivery (tenant, target, next_try_ms, id) WHERE state = 0;

-- When the lease was last given or extended.
ALTER TABLE jobs_running ADD COLUMN renewed_ms int8 NOT NULL DEFAULT 0;

-- A queue that was deleted. Its row stays, because events refer to it.
ALTER TABLE jobs_queue ADD COLUMN gone bool NOT NULL DEFAULT false;

-- Jobs that were cancelled because a job they depend on did not succeed: they come back when that one is retried.
CREATE TABLE jobs_revival (
    parent int8 NOT NULL,
    child  int8 NOT NULL,
    PRIMARY KEY (parent, child)
);
CREATE INDEX jobs_revival_by_child ON jobs_revival (child);

-- What passed through a queue, by tenant. Every change adds a row to the second table in its own transaction;
-- maintenance adds those up in the first. Readers add up both, and `jobs_passed`, which older servers write.
CREATE TABLE jobs_throughput (
    queue           int4 NOT NULL,
    tenant          int4 NOT NULL,
    enqueued        int8 NOT NULL DEFAULT 0,
    started         int8 NOT NULL DEFAULT 0,
    succeeded       int8 NOT NULL DEFAULT 0,
    failed          int8 NOT NULL DEFAULT 0,
    cancelled       int8 NOT NULL DEFAULT 0,
    attempts_failed int8 NOT NULL DEFAULT 0,
    leases_lost     int8 NOT NULL DEFAULT 0,
    late_reports    int8 NOT NULL DEFAULT 0,
    PRIMARY KEY (queue, tenant)
) WITH (fillfactor = 50);
CREATE TABLE jobs_throughput_delta (
    queue           int4 NOT NULL,
    tenant          int4 NOT NULL,
    enqueued        int8 NOT NULL DEFAULT 0,
    started         int8 NOT NULL DEFAULT 0,
    succeeded       int8 NOT NULL DEFAULT 0,
    failed          int8 NOT NULL DEFAULT 0,
    cancelled       int8 NOT NULL DEFAULT 0,
    attempts_failed int8 NOT NULL DEFAULT 0,
    leases_lost     int8 NOT NULL DEFAULT 0,
    late_reports    int8 NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
INSERT INTO jobs_throughput (queue, tenant) SELECT DISTINCT queue, tenant FROM jobs_job;

-- When a server last looked for expired leases, by the database's clock.
CREATE TABLE jobs_alive (
    one   bool PRIMARY KEY DEFAULT true CHECK (one),
    at_ms int8 NOT NULL
) WITH (fillfactor = 10);
