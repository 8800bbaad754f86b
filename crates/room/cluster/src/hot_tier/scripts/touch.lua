-- Asks what may be done with a tag. A granted touch calls an eviction off.
-- KEYS[1] meta  hash: run, gen, snap, state, token, keep
-- KEYS[2] used  sorted set: tag -> Unix ms of its last touch
-- ARGV[1] run   the node's run    ARGV[2] tag
-- Returns 'cold' | 'suspect' | 'wait' | 'granted'
local meta, used, run, tag = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local known = redis.call('HMGET', meta, 'run', 'state')
if not known[1] then return 'cold' end
if known[1] ~= run then return 'suspect' end
if known[2] == 'loading' then return 'wait' end
-- A first write that needs no memory: the others are then allowed when memory is full.
redis.call('PERSIST', meta)
if known[2] == 'evicting' then
  redis.call('HSET', meta, 'state', 'hot')
  redis.call('HDEL', meta, 'token')
end
local now = redis.call('TIME')
redis.call('ZADD', used, now[1] * 1000 + math.floor(now[2] / 1000), tag)
return 'granted'
