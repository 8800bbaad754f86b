-- Stores a request and its expiry.
-- KEYS[1] request   hash: _id, _method, _url, _endpoints, _outcome:NAME
-- ARGV[1] ttl_ms    time to live    ARGV[2..] field and value, in turn
-- Returns the server's clock in milliseconds.
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000)
