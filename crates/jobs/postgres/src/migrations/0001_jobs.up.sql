-- Jobs, moved from table to table as they live: ready, delayed or blocked, running, done.
-- Nothing that claims walk is ever updated in place. Times are Unix milliseconds.

CREATE SEQUENCE jobs_server_number;
CREATE SEQUENCE jobs_event_seq;

CREATE TABLE jobs_tenant (
    id          int4 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        text NOT NULL UNIQUE,
    weight      int4 NOT NULL DEFAULT 1 CHECK (weight > 0),
    created_ms  int8 NOT NULL
);

CREATE TABLE jobs_queue (
    id              int4 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name            text NOT NULL UNIQUE,
    settings        text NOT NULL,
    paused          bool NOT NULL DEFAULT false,
    created_ms      int8 NOT NULL,
    -- Raised with every change, so that servers see when to read again.
    version         int8 NOT NULL DEFAULT 1,
    rate_horizon_us int8 NOT NULL DEFAULT 0,
    last_claim_ms   int8
);

-- What passed through a queue, counted by each server for itself and added up by readers.
CREATE TABLE jobs_passed (
    queue           int4 NOT NULL,
    server          int4 NOT NULL,
    enqueued        int8 NOT NULL DEFAULT 0,
    started         int8 NOT NULL DEFAULT 0,
    succeeded       int8 NOT NULL DEFAULT 0,
    failed          int8 NOT NULL DEFAULT 0,
    cancelled       int8 NOT NULL DEFAULT 0,
    attempts_failed int8 NOT NULL DEFAULT 0,
    leases_lost     int8 NOT NULL DEFAULT 0,
    late_reports    int8 NOT NULL DEFAULT 0,
    PRIMARY KEY (queue, server)
);

-- What a job is; written once.
CREATE TABLE jobs_job (
    id           int8 PRIMARY KEY CHECK (id > 0),
    queue        int4 NOT NULL,
    tenant       int4 NOT NULL,
    kind         text,
    rank         int2 NOT NULL,
    created_ms   int8 NOT NULL,
    lease_ms     int8 NOT NULL,
    max_retries  int4 NOT NULL,
    options      text,
    content_type text,
    payload      bytea NOT NULL
) WITH (autovacuum_vacuum_insert_scale_factor = 0.2);

-- Jobs that can be claimed, in the order in which they are. A rank is a priority turned round: lower goes
-- first. The position is the job's id at first and a later one after each wait. Flags are `Flags` in Rust.
CREATE TABLE jobs_ready (
    queue       int4 NOT NULL,
    tenant      int4 NOT NULL,
    rank        int2 NOT NULL,
    pos         int8 NOT NULL,
    id          int8 NOT NULL,
    attempt     int4 NOT NULL,
    attempt_max int4 NOT NULL,
    flags       int2 NOT NULL,
    PRIMARY KEY (queue, tenant, rank, pos)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);

-- Where a job is in `jobs_ready` when its position is not its id.
CREATE TABLE jobs_moved (
    id  int8 PRIMARY KEY,
    pos int8 NOT NULL
);

CREATE TABLE jobs_delayed (
    run_at_ms   int8 NOT NULL,
    id          int8 NOT NULL UNIQUE,
    queue       int4 NOT NULL,
    tenant      int4 NOT NULL,
    rank        int2 NOT NULL,
    attempt     int4 NOT NULL,
    attempt_max int4 NOT NULL,
    flags       int2 NOT NULL,
    PRIMARY KEY (run_at_ms, id)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);

-- Jobs that wait for others, or for a place under their key. A job with both waits for the others first.
CREATE TABLE jobs_blocked (
    id          int8 PRIMARY KEY,
    queue       int4 NOT NULL,
    tenant      int4 NOT NULL,
    rank        int2 NOT NULL,
    attempt     int4 NOT NULL,
    attempt_max int4 NOT NULL,
    flags       int2 NOT NULL,
    -- Dependencies that have not succeeded; 0 when it waits for a place.
    pending     int4 NOT NULL CHECK (pending >= 0),
    -- The earliest time, for a job that waits for others.
    run_at_ms   int8 NOT NULL DEFAULT 0,
    -- The key whose place it waits for, when it waits for no job, and its turn.
    place       int8,
    pos         int8
);
CREATE INDEX jobs_blocked_by_place ON jobs_blocked (place, pos) WHERE place IS NOT NULL;

CREATE TABLE jobs_running (
    id            int8 PRIMARY KEY,
    queue         int4 NOT NULL,
    tenant        int4 NOT NULL,
    rank          int2 NOT NULL,
    attempt       int4 NOT NULL,
    attempt_max   int4 NOT NULL,
    flags         int2 NOT NULL,
    nonce         int8 NOT NULL,
    worker        text NOT NULL,
    started_ms    int8 NOT NULL,
    lease_ms      int8 NOT NULL,
    lease_until_ms int8 NOT NULL,
    CHECK (attempt <= attempt_max)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX jobs_running_by_lease ON jobs_running (lease_until_ms);

-- Jobs that have ended. The attempt that succeeded is here and not among the attempts.
-- State: 4 succeeded, 5 failed, 6 cancelled.
CREATE TABLE jobs_done (
    id           int8 PRIMARY KEY,
    queue        int4 NOT NULL,
    tenant       int4 NOT NULL,
    state        int2 NOT NULL CHECK (state IN (4, 5, 6)),
    attempt      int4 NOT NULL,
    attempt_max  int4 NOT NULL,
    flags        int2 NOT NULL,
    nonce        int8,
    worker       text,
    started_ms   int8,
    ended_ms     int8 NOT NULL,
    error        text,
    content_type text,
    result       bytea,
    purge_at_ms  int8 NOT NULL
) WITH (autovacuum_vacuum_insert_scale_factor = 0.2);
CREATE INDEX jobs_done_by_purge ON jobs_done (purge_at_ms);
CREATE INDEX jobs_done_badly ON jobs_done (id) WHERE state <> 4;

-- Attempts that did not succeed, and those of jobs that ran again by hand. Ending: 1 succeeded, 2 failed,
-- 3 lease lost, 4 cancelled.
CREATE TABLE jobs_attempt (
    id         int8 NOT NULL,
    number     int4 NOT NULL,
    nonce      int8 NOT NULL,
    worker     text NOT NULL,
    started_ms int8 NOT NULL,
    ended_ms   int8 NOT NULL,
    ending     int2 NOT NULL,
    error      text,
    PRIMARY KEY (id, number)
);

CREATE TABLE jobs_progress (
    id        int8 PRIMARY KEY,
    per_mille int2,
    message   text,
    data      text,
    at_ms     int8 NOT NULL,
    -- When progress of this job last became an event.
    event_ms  int8 NOT NULL
) WITH (fillfactor = 70);

CREATE TABLE jobs_log (
    id      int8 NOT NULL,
    number  int8 NOT NULL,
    at_ms   int8 NOT NULL,
    attempt int4 NOT NULL,
    text    text NOT NULL,
    PRIMARY KEY (id, number)
);

-- Reports with a token that was worth nothing any more. The highest number counts them all.
CREATE TABLE jobs_late (
    id      int8 NOT NULL,
    number  int8 NOT NULL,
    at_ms   int8 NOT NULL,
    attempt int4 NOT NULL,
    what    text NOT NULL,
    why     text NOT NULL,
    PRIMARY KEY (id, number)
);

CREATE TABLE jobs_key (
    queue      int4 NOT NULL,
    tenant     int4 NOT NULL,
    key        text NOT NULL,
    id         int8 NOT NULL,
    expires_ms int8 NOT NULL,
    PRIMARY KEY (queue, tenant, key)
);
CREATE INDEX jobs_key_by_expiry ON jobs_key (expires_ms);

CREATE TABLE jobs_unique (
    queue  int4 NOT NULL,
    tenant int4 NOT NULL,
    key    text NOT NULL,
    id     int8 NOT NULL UNIQUE,
    PRIMARY KEY (queue, tenant, key)
);

-- Places of a concurrency key. A job holds one from when it becomes ready until its attempt ends.
CREATE TABLE jobs_place (
    id    int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue int4 NOT NULL,
    key   text NOT NULL,
    most  int4 NOT NULL CHECK (most > 0),
    taken int4 NOT NULL CHECK (taken >= 0),
    UNIQUE (queue, key)
) WITH (fillfactor = 50);

CREATE TABLE jobs_dependency (
    dependent int8 NOT NULL,
    on_job    int8 NOT NULL,
    PRIMARY KEY (on_job, dependent)
);
CREATE INDEX jobs_dependency_by_dependent ON jobs_dependency (dependent);

-- Endings that other jobs wait for and have not been told of.
CREATE TABLE jobs_resolve (
    id int8 PRIMARY KEY
);

CREATE TABLE jobs_event (
    seq      int8 PRIMARY KEY,
    kind     int2 NOT NULL,
    job      int8 NOT NULL,
    queue    int4 NOT NULL,
    tenant   int4 NOT NULL,
    attempt  int4 NOT NULL,
    at_ms    int8 NOT NULL,
    data     text
) WITH (autovacuum_vacuum_insert_scale_factor = 0.2);
CREATE INDEX jobs_event_by_job ON jobs_event (job, seq);

CREATE TABLE jobs_subscription (
    tenant      int4 NOT NULL,
    name        text NOT NULL,
    filter      text NOT NULL,
    cursor      int8 NOT NULL,
    created_ms  int8 NOT NULL,
    advanced_ms int8 NOT NULL,
    PRIMARY KEY (tenant, name)
) WITH (fillfactor = 50);

CREATE TABLE jobs_delivery (
    id          int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job         int8 NOT NULL,
    queue       int4 NOT NULL,
    tenant      int4 NOT NULL,
    seq         int8 NOT NULL,
    kind        int2 NOT NULL,
    attempt     int4 NOT NULL,
    webhook     text NOT NULL,
    -- 0 pending, 1 delivered, 2 gave up.
    state       int2 NOT NULL,
    tries       int4 NOT NULL DEFAULT 0,
    created_ms  int8 NOT NULL,
    next_try_ms int8 NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX jobs_delivery_due ON jobs_delivery (next_try_ms, id) WHERE state = 0;
CREATE INDEX jobs_delivery_by_job ON jobs_delivery (job);

CREATE TABLE jobs_delivery_try (
    delivery   int8 NOT NULL,
    number     int4 NOT NULL,
    at_ms      int8 NOT NULL,
    latency_ms int8 NOT NULL,
    status     int4,
    error      text,
    reply      bytea NOT NULL,
    PRIMARY KEY (delivery, number)
);

CREATE TABLE jobs_schedule (
    tenant      int4 NOT NULL,
    name        text NOT NULL,
    cron        text NOT NULL,
    time_zone   text NOT NULL,
    missed      text NOT NULL,
    paused      bool NOT NULL,
    template    text NOT NULL,
    next_run_ms int8,
    last_run_ms int8,
    created_ms  int8 NOT NULL,
    PRIMARY KEY (tenant, name)
);
CREATE INDEX jobs_schedule_due ON jobs_schedule (next_run_ms) WHERE next_run_ms IS NOT NULL;

CREATE TABLE jobs_token (
    hash       bytea PRIMARY KEY,
    tenant     int4 NOT NULL,
    name       text NOT NULL,
    scopes     int2 NOT NULL,
    queues     text[] NOT NULL,
    created_ms int8 NOT NULL,
    expires_ms int8,
    UNIQUE (tenant, name)
);

CREATE TABLE jobs_fact (
    name  text PRIMARY KEY,
    value bytea NOT NULL
);
