-- Announces writes to keys of a tag. Goes ahead of the first write to each in a lease.
-- KEYS[1] dirty  hash: key -> token of its last registration
-- KEYS[2] index  sorted set: tag -> Unix ms since when it is dirty
-- ARGV[1] token  never used before    ARGV[2] tag    ARGV[3..] keys
-- Returns 'registered'
local dirty, index, token, tag = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
-- A first write that needs no memory: a DEL runs when memory is full, so its announcement must too.
redis.call('PERSIST', dirty)
for at = 3, #ARGV do
  redis.call('HSET', dirty, ARGV[at], token)
end
local now = redis.call('TIME')
redis.call('ZADD', index, 'NX', now[1] * 1000 + math.floor(now[2] / 1000), tag)
return 'registered'
