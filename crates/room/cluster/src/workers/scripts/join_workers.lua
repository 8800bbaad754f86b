-- Notes that a worker is alive and counts those that are.
-- KEYS[1] workers  sorted set: name -> Unix ms when it was last seen
-- ARGV[1] name     of the caller    ARGV[2] ttl_ms  how long a worker counts after it was seen
-- Returns how many are alive
local workers, name, ttl_ms = KEYS[1], ARGV[1], tonumber(ARGV[2])
local now = redis.call('TIME')
local now_ms = now[1] * 1000 + math.floor(now[2] / 1000)
redis.call('ZREMRANGEBYSCORE', workers, '-inf', now_ms - ttl_ms)
redis.call('ZADD', workers, now_ms, name)
return redis.call('ZCARD', workers)
