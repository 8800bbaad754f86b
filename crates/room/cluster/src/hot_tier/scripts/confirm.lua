-- Ends the residency of a marked tag and removes its keys.
-- KEYS[1] meta   hash: run, gen, snap, state, token, keep
-- KEYS[2] dirty  hash: key -> token of its last registration
-- KEYS[3] used   sorted set: tag -> Unix ms of its last touch
-- KEYS[4] quiet  string: there while keys are moved, for who hears of changed keys
-- KEYS[5..]      keys of the tag
-- ARGV[1] run    the node's run    ARGV[2] token  of this eviction    ARGV[3] tag
-- Returns 'gone' | 'dirty' | 'missing' | 'suspect' | 'called off'
local meta, dirty, used, run, token, tag = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[3]
if redis.call('HLEN', dirty) > 0 then return 'dirty' end
local known = redis.call('HMGET', meta, 'run', 'state', 'token')
if not known[1] then return 'missing' end
if known[1] ~= run then return 'suspect' end
if known[2] ~= 'evicting' or known[3] ~= token then return 'called off' end
-- The meta goes first: should the rest fail, the tag is cold with keys left over, not hot with keys missing.
redis.call('DEL', meta)
redis.call('ZREM', used, tag)
if #KEYS > 4 then
  redis.call('SET', KEYS[4], '1', 'PX', 1000)
  for at = 5, #KEYS do
    redis.call('UNLINK', KEYS[at])
  end
  redis.call('DEL', KEYS[4])
end
return 'gone'
