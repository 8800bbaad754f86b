-- Shares of tenants and targets, keys that outlive their jobs, leases on a steady clock. Compatible.

-- What a registration held, so that a repeat with another content is noticed; and how the job had ended when it
-- was removed: 4 succeeded, 5 failed, 6 cancelled.
ALTER TABLE idempotency ADD COLUMN fingerprint BLOB;
ALTER TABLE idempotency ADD COLUMN ended INTEGER;
CREATE INDEX idempotency_job ON idempotency (id);

-- The last run of a schedule that was refused, and why.
ALTER TABLE schedules ADD COLUMN refused_ms INTEGER;
ALTER TABLE schedules ADD COLUMN refused TEXT;

-- Where a delivery goes: scheme, host and port. Empty for deliveries from before there was this column.
ALTER TABLE deliveries ADD COLUMN target TEXT NOT NULL DEFAULT '';
CREATE INDEX deliveries_target ON deliveries (tenant, target, next_try_ms, id) WHERE state = 1;

-- When the lease was last given or extended, on the clock that leases go by.
ALTER TABLE running ADD COLUMN renewed_ms INTEGER NOT NULL DEFAULT 0;

-- A queue that was deleted. Its row stays, because events refer to it.
ALTER TABLE queues ADD COLUMN gone INTEGER NOT NULL DEFAULT 0;

-- Jobs that were cancelled because a job they depend on did not succeed: they come back when that one is retried.
CREATE TABLE revivals (
    parent INTEGER NOT NULL,
    child INTEGER NOT NULL,
    PRIMARY KEY (parent, child)
) STRICT, WITHOUT ROWID;
CREATE INDEX revivals_child ON revivals (child);
