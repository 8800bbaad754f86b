-- Changes the longest use time of a pool that nobody has used for as long as any use can last. The pool is
-- young afterwards.
-- KEYS[1] ids    sorted set: member -> expiry in Unix seconds
-- KEYS[2] leases hash: see the prelude
-- ARGV[1] bound_ms   ARGV[2] idle_s  how long no number may have been reserved   ARGV[3] born  random
-- ARGV[4] caller_now Unix seconds
-- Returns {'changed'} | {'missing'} | {'used', member, seconds until it has been idle for long enough}
local ids, leases = KEYS[1], KEYS[2]
local last = redis.call('ZREVRANGE', ids, 0, 0, 'WITHSCORES')
if not last[1] then return { 'missing' } end
local left = tonumber(last[2]) + tonumber(ARGV[2]) - clock(ARGV[4])
if left > 0 then return { 'used', last[1], seconds(left) } end
redis.call('HMSET', leases, 'bound', ARGV[1], 'born', ARGV[3], 'young', '1', 'unused_run', '')
return { 'changed' }
