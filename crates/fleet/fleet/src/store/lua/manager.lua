-- A manager's heartbeat, and whether there were others. It stands alone, without the prelude.
-- KEYS[1] managers   sorted set: name -> Unix ms of its last heartbeat
-- KEYS[2] heartbeat  string with a time to live, for readers of document 000's layout
-- ARGV[1] name   ARGV[2] heartbeat_ms, 0 to leave
-- Returns number of other managers with a heartbeat
local managers, heartbeat, name, heartbeat_ms = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2])
if not redis.REDIS_VERSION_NUM and redis.replicate_commands then redis.replicate_commands() end
local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
redis.call('ZREM', managers, name)
if heartbeat_ms == 0 then
  redis.call('DEL', heartbeat)
else
  redis.call('ZREMRANGEBYSCORE', managers, '-inf', string.format('(%.0f', now_ms - heartbeat_ms))
end
local others = redis.call('ZCARD', managers)
if heartbeat_ms > 0 then
  redis.call('ZADD', managers, string.format('%.0f', now_ms), name)
  redis.call('SET', heartbeat, string.format('%.0f', now_ms), 'PX', ARGV[2])
end
return others
