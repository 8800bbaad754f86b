-- Jobs, the places where they are, and what is told of them. Compatible: there was nothing before.
--
-- A job is in exactly one place: blocked, held, delayed, ready, running or done. A change of state moves a
-- narrow row from one table to another; the job's own row, with its payload, is written once.

CREATE TABLE facts (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE tenants (
    num INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    weight INTEGER NOT NULL CHECK (weight > 0),
    created_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE queues (
    num INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    settings TEXT NOT NULL,
    paused INTEGER NOT NULL DEFAULT 0 CHECK (paused BETWEEN 0 AND 1),
    created_ms INTEGER NOT NULL,
    rate_horizon_us INTEGER NOT NULL DEFAULT 0,
    last_claim_ms INTEGER
) STRICT;

-- Jobs by place now, and how many ever passed, for each tenant of a queue.
CREATE TABLE counters (
    queue INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    scheduled INTEGER NOT NULL CHECK (scheduled >= 0),
    ready INTEGER NOT NULL CHECK (ready >= 0),
    blocked INTEGER NOT NULL CHECK (blocked >= 0),
    running INTEGER NOT NULL CHECK (running >= 0),
    succeeded INTEGER NOT NULL CHECK (succeeded >= 0),
    failed INTEGER NOT NULL CHECK (failed >= 0),
    cancelled INTEGER NOT NULL CHECK (cancelled >= 0),
    passed_enqueued INTEGER NOT NULL,
    passed_started INTEGER NOT NULL,
    passed_succeeded INTEGER NOT NULL,
    passed_failed INTEGER NOT NULL,
    passed_cancelled INTEGER NOT NULL,
    passed_attempts_failed INTEGER NOT NULL,
    passed_leases_lost INTEGER NOT NULL,
    passed_late_reports INTEGER NOT NULL,
    PRIMARY KEY (queue, tenant)
) STRICT, WITHOUT ROWID;

-- The payload is last, so that reading the rest leaves its overflow pages alone.
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY CHECK (id > 0),
    queue INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    kind TEXT,
    priority INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    run_at_ms INTEGER,
    lease_ms INTEGER NOT NULL CHECK (lease_ms > 0),
    max_retries INTEGER NOT NULL CHECK (max_retries >= 0),
    -- The job's events come after this position.
    seq_from INTEGER NOT NULL,
    options TEXT,
    content_type TEXT,
    payload BLOB NOT NULL
) STRICT;

-- The only index that claims walk. The rank is the negative priority; the position is the id at first and a
-- fresh number of the same kind on every later entry.
CREATE TABLE ready (
    queue INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    pos INTEGER NOT NULL,
    id INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    attempt_max INTEGER NOT NULL CHECK (attempt < attempt_max),
    PRIMARY KEY (queue, tenant, rank, pos)
) STRICT, WITHOUT ROWID;

-- Where jobs stand in `ready` whose position is not their id.
CREATE TABLE positions (
    id INTEGER PRIMARY KEY,
    pos INTEGER NOT NULL
) STRICT;

CREATE TABLE delayed (
    run_at_ms INTEGER NOT NULL,
    id INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    attempt_max INTEGER NOT NULL,
    PRIMARY KEY (run_at_ms, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX delayed_id ON delayed (id);

-- Jobs that wait for others, and for how many.
CREATE TABLE blocked (
    id INTEGER PRIMARY KEY,
    pending INTEGER NOT NULL CHECK (pending > 0)
) STRICT;

CREATE TABLE dependencies (
    parent INTEGER NOT NULL,
    child INTEGER NOT NULL,
    PRIMARY KEY (parent, child)
) STRICT, WITHOUT ROWID;
CREATE INDEX dependencies_child ON dependencies (child);

-- Jobs that have ended and whose dependents do not all know it yet.
CREATE TABLE resolving (
    parent INTEGER PRIMARY KEY,
    succeeded INTEGER NOT NULL CHECK (succeeded BETWEEN 0 AND 1)
) STRICT;

-- Places under concurrency keys. A job takes one when it becomes ready and gives it back when it stops running.
CREATE TABLE places (
    queue INTEGER NOT NULL,
    key TEXT NOT NULL,
    places INTEGER NOT NULL CHECK (places > 0),
    taken INTEGER NOT NULL CHECK (taken >= 0),
    PRIMARY KEY (queue, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE held (
    queue INTEGER NOT NULL,
    key TEXT NOT NULL,
    pos INTEGER NOT NULL,
    id INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    attempt_max INTEGER NOT NULL,
    PRIMARY KEY (queue, key, pos)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX held_id ON held (id);

CREATE TABLE running (
    id INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    attempt_max INTEGER NOT NULL CHECK (attempt <= attempt_max),
    nonce INTEGER NOT NULL,
    worker TEXT NOT NULL,
    started_ms INTEGER NOT NULL,
    lease_ms INTEGER NOT NULL,
    lease_until_ms INTEGER NOT NULL,
    -- Nothing but the queue says how the job goes on.
    plain INTEGER NOT NULL CHECK (plain BETWEEN 0 AND 1)
) STRICT;
CREATE INDEX running_lease ON running (lease_until_ms);

-- State: 4 succeeded, 5 failed, 6 cancelled. The attempt that succeeded is here and not among the attempts.
CREATE TABLE done (
    id INTEGER PRIMARY KEY,
    state INTEGER NOT NULL CHECK (state BETWEEN 4 AND 6),
    attempt INTEGER NOT NULL,
    nonce INTEGER,
    worker TEXT,
    started_ms INTEGER,
    ended_ms INTEGER NOT NULL,
    purge_at_ms INTEGER NOT NULL,
    error TEXT,
    content_type TEXT,
    result BLOB
) STRICT;
CREATE INDEX done_purge ON done (purge_at_ms);
CREATE INDEX done_unsuccessful ON done (id) WHERE state <> 4;

-- Attempts that did not succeed, and those of jobs that ran again by hand. End: 1 succeeded, 2 failed,
-- 3 lease lost, 4 cancelled.
CREATE TABLE attempts (
    id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    nonce INTEGER NOT NULL,
    worker TEXT NOT NULL,
    started_ms INTEGER NOT NULL,
    ended_ms INTEGER NOT NULL,
    end INTEGER NOT NULL CHECK (end BETWEEN 1 AND 4),
    error TEXT,
    PRIMARY KEY (id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE progress (
    id INTEGER PRIMARY KEY,
    per_mille INTEGER,
    message TEXT,
    data TEXT,
    at_ms INTEGER NOT NULL,
    event_at_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE logs (
    id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE late_reports (
    id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    what TEXT NOT NULL,
    why TEXT NOT NULL,
    PRIMARY KEY (id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency (
    queue INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    key TEXT NOT NULL,
    id INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    PRIMARY KEY (queue, tenant, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_expires ON idempotency (expires_ms);

-- Jobs that have not ended, by their unique key.
CREATE TABLE uniques (
    queue INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    key TEXT NOT NULL,
    id INTEGER NOT NULL,
    PRIMARY KEY (queue, tenant, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    queue INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    data TEXT
) STRICT;

CREATE TABLE subscriptions (
    tenant INTEGER NOT NULL,
    name TEXT NOT NULL,
    filter TEXT NOT NULL,
    cursor INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    advanced_ms INTEGER NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

-- State: 1 pending, 2 delivered, 3 gave up.
CREATE TABLE deliveries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job INTEGER NOT NULL,
    queue INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    webhook TEXT NOT NULL,
    state INTEGER NOT NULL CHECK (state BETWEEN 1 AND 3),
    tries INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    next_try_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX deliveries_job ON deliveries (job);
CREATE INDEX deliveries_due ON deliveries (next_try_ms) WHERE state = 1;

CREATE TABLE delivery_tries (
    delivery INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    latency_ms INTEGER NOT NULL,
    status INTEGER,
    error TEXT,
    reply BLOB NOT NULL,
    PRIMARY KEY (delivery, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE schedules (
    tenant INTEGER NOT NULL,
    name TEXT NOT NULL,
    cron TEXT NOT NULL,
    time_zone TEXT NOT NULL,
    missed TEXT NOT NULL,
    paused INTEGER NOT NULL CHECK (paused BETWEEN 0 AND 1),
    template TEXT NOT NULL,
    next_run_ms INTEGER,
    last_run_ms INTEGER,
    created_ms INTEGER NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX schedules_due ON schedules (next_run_ms) WHERE next_run_ms IS NOT NULL;

-- Only hashes: whoever reads this file can use no token.
CREATE TABLE tokens (
    tenant INTEGER NOT NULL,
    name TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE,
    scopes INTEGER NOT NULL,
    queues TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
