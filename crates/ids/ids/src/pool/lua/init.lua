-- Fills a pool that does not exist yet.
-- KEYS[1] ids    sorted set: member -> expiry in Unix seconds
-- KEYS[2] stats  hash: counters, min, max
-- ARGV[1] min    ARGV[2] max   ARGV[3] members, separated by spaces
-- Returns {'filled'} | {'exists', min, max}
local ids, stats = KEYS[1], KEYS[2]
if redis.call('EXISTS', ids) == 1 then
  local range = redis.call('HMGET', stats, 'min', 'max')
  return { 'exists', range[1] or '', range[2] or '' }
end
for member in string.gmatch(ARGV[3], '%S+') do redis.call('ZADD', ids, 0, member) end
redis.call('HMSET', stats, 'min', ARGV[1], 'max', ARGV[2])
return { 'filled' }
