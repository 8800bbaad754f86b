-- Takes keys off the dirty list whose last writes are in a committed snapshot.
-- KEYS[1] meta   hash: run, gen, snap, state, token, keep
-- KEYS[2] dirty  hash: key -> token of its last registration
-- KEYS[3] index  sorted set: tag -> Unix ms since when it is dirty
-- ARGV[1] run    the node's run    ARGV[2] gen  of the snapshot    ARGV[3] tag
-- ARGV[4..]      key and token of each
-- Returns 'clean' | 'dirty' | 'missing' | 'suspect' | 'loading' | 'other'
local meta, dirty, index = KEYS[1], KEYS[2], KEYS[3]
local run, gen, tag = ARGV[1], ARGV[2], ARGV[3]
local known = redis.call('HMGET', meta, 'run', 'state', 'gen')
if not known[1] then return 'missing' end
if known[1] ~= run then return 'suspect' end
if known[2] == 'loading' then return 'loading' end
if known[3] ~= gen then return 'other' end
local left = redis.call('HLEN', dirty)
for at = 4, #ARGV, 2 do
  if redis.call('HGET', dirty, ARGV[at]) == ARGV[at + 1] then
    -- The entry in the index goes ahead of the last name, so that there is none without the other.
    if left == 1 then redis.call('ZREM', index, tag) end
    redis.call('HDEL', dirty, ARGV[at])
    left = left - 1
    if left == 0 then return 'clean' end
  end
end
if left == 0 then return 'clean' end
return 'dirty'
