-- Takes or renews the lease of a shard.
-- KEYS[1] lease   string: name of the holder
-- ARGV[1] holder  name of the caller    ARGV[2] ttl_ms  new time to live
-- Returns 'held' | 'taken'
local lease, holder, ttl_ms = KEYS[1], ARGV[1], ARGV[2]
local known = redis.call('GET', lease)
if known and known ~= holder then return 'taken' end
-- A first write that needs no memory: evictions must go on when memory is full.
redis.call('PERSIST', lease)
redis.call('SET', lease, holder, 'PX', ttl_ms)
return 'held'
