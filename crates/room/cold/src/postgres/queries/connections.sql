-- name: setup
-- Every connection runs this first.
--
-- Statements find few rows by their keys, in tables of any size: one plan for all, made once, by index.
-- The planner's guesses about arrays would sometimes read whole tables instead.
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET jit = off;
-- A lock is followed by a statement that sees what was committed before it.
SET default_transaction_isolation = 'read committed';
-- No transaction waits for a client that is gone, nor long for a lock.
SET lock_timeout = '20s';
SET idle_in_transaction_session_timeout = '60s';
-- A commit that was answered is on the disk, whatever the server's default.
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';
