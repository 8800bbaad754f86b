-- Begins a load, also over another loader that may be dead.
-- KEYS[1] meta  hash: run, gen, snap, state, token, keep
-- KEYS[2] used  sorted set: tag -> Unix ms of its last touch
-- ARGV[1] run   the node's run    ARGV[2] token  of this load    ARGV[3] tag
-- Returns 'begun' | 'resident'
local meta, used, run, token, tag = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
local known = redis.call('HMGET', meta, 'run', 'state', 'keep')
local keep = known[3] or 'no'
if not known[1] then
  redis.call('HSET', meta, 'gen', 0, 'snap', 0)
elseif known[2] ~= 'loading' then
  if known[1] == run then return 'resident' end
  -- Keys, dirty names, gen and snap stay until the cold copy was compared with them.
  keep = 'yes'
end
redis.call('HSET', meta, 'run', run, 'state', 'loading', 'token', token, 'keep', keep)
local now = redis.call('TIME')
redis.call('ZADD', used, now[1] * 1000 + math.floor(now[2] / 1000), tag)
return 'begun'
