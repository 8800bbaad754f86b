-- Changes the range of a pool: adds numbers, and takes away numbers that nobody has reserved. All or
-- nothing.
-- KEYS[1] ids      sorted set: member -> expiry in Unix seconds
-- KEYS[2] clients  hash: member -> owner
-- KEYS[3] stats    hash: counters, min, max
-- KEYS[4] leases   hash: see the prelude
-- ARGV[1] old_min  ARGV[2] old_max   the range as the caller saw it
-- ARGV[3] min      ARGV[4] max
-- ARGV[5] added    members, separated by spaces    ARGV[6] removed  members, separated by spaces
-- ARGV[7] caller_now Unix seconds
-- Returns {'resized'} | {'missing'} | {'changed', min, max} | {'used', member, owner}
local ids, clients, stats = KEYS[1], KEYS[2], KEYS[3]
if redis.call('EXISTS', ids) == 0 then return { 'missing' } end
local range = redis.call('HMGET', stats, 'min', 'max')
if range[1] ~= ARGV[1] or range[2] ~= ARGV[2] then
  return { 'changed', range[1] or '', range[2] or '' }
end
local now = clock(ARGV[7])
for member in string.gmatch(ARGV[6], '%S+') do
  local score = redis.call('ZSCORE', ids, member)
  if score and tonumber(score) >= now then
    return { 'used', member, redis.call('HGET', clients, member) or '' }
  end
end
for member in string.gmatch(ARGV[6], '%S+') do
  redis.call('ZREM', ids, member)
  redis.call('HDEL', clients, member)
end
for member in string.gmatch(ARGV[5], '%S+') do
  if not redis.call('ZSCORE', ids, member) then
    redis.call('ZADD', ids, 0, member)
    -- Nobody has vouched for this one.
    redis.call('HSET', KEYS[4], 'unused_run', '')
  end
end
redis.call('HMSET', stats, 'min', ARGV[3], 'max', ARGV[4])
return { 'resized' }
