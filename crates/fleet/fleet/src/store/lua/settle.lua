-- Says that every lease of an earlier run is over: the caller has seen this run for long enough.
-- ARGV[1] run   ARGV[2] birth  of what the caller has seen
-- Returns 1 | 0
if redis.call('HGET', meta, 'settled') == ARGV[1] then return 0 end
if redis.call('HGET', meta, 'birth') ~= ARGV[2] then return 0 end
redis.call('HSET', meta, 'settled', ARGV[1])
return 1
