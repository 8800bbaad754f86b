-- Fills a pool that does not exist yet.
-- KEYS[1] ids    sorted set: member -> expiry in Unix seconds
-- KEYS[2] stats  hash: counters, min, max
-- KEYS[3] leases hash: see the prelude
-- ARGV[1] min    ARGV[2] max   ARGV[3] members, separated by spaces
-- ARGV[4] bound_ms  the longest use time in the pool
-- ARGV[5] born   random
-- ARGV[6] run    the server's, if nobody uses these numbers; '' makes the pool young
-- Returns {'filled'} | {'exists', min, max}
local ids, stats, leases = KEYS[1], KEYS[2], KEYS[3]
if redis.call('EXISTS', ids) == 1 then
  local range = redis.call('HMGET', stats, 'min', 'max')
  return { 'exists', range[1] or '', range[2] or '' }
end
for member in string.gmatch(ARGV[3], '%S+') do redis.call('ZADD', ids, 0, member) end
redis.call('HMSET', stats, 'min', ARGV[1], 'max', ARGV[2])
redis.call('HMSET', leases, 'bound', ARGV[4], 'born', ARGV[5], 'young', ARGV[6] == '' and '1' or '0',
  'unused_run', ARGV[6])
return { 'filled' }
