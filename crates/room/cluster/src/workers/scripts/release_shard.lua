-- Gives the lease of a shard back if the caller still has it.
-- KEYS[1] lease   string: name of the holder
-- ARGV[1] holder  name of the caller
-- Returns 'released' | 'other'
local lease, holder = KEYS[1], ARGV[1]
if redis.call('GET', lease) ~= holder then return 'other' end
redis.call('DEL', lease)
return 'released'
