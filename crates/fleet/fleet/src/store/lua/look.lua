-- Reads the instances and, if asked for, one worker or all of them; changes nothing.
-- ARGV[1] workers  '' for none, '*' for all unless the placement still has version ARGV[3], else one
-- ARGV[2] worker   the one, if ARGV[1] is '1'
-- ARGV[3] known    version of the placement that the caller has
-- ARGV[4] health   version of the health that the caller has
-- Returns {settled, version, instances (name, record, ...), 1 if workers follow,
--          places (worker, record, ...), birth, timing, version of the health, 1 if health follows,
--          health (worker, record, ...), avoid (worker, record, ...), now}
local version = redis.call('HGET', meta, 'version') or '0'
local found, told = {}, 0
if ARGV[1] == '*' and ARGV[3] ~= version then
  found, told = redis.call('HGETALL', places), 1
elseif ARGV[1] == '1' then
  local line = redis.call('HGET', places, ARGV[2])
  if line then found = { ARGV[2], line } end
  told = 1
end
local health_version = redis.call('HGET', meta, 'health') or '0'
local health_told, state, kept_from = 0, {}, {}
if told == 1 or ARGV[4] ~= health_version then
  health_told, state, kept_from = 1, redis.call('HGETALL', health), redis.call('HGETALL', avoid)
end
return { redis.call('HGET', meta, 'settled') or '', version, redis.call('HGETALL', instances), told, found,
  redis.call('HGET', meta, 'birth') or '', redis.call('HGET', meta, 'timing') or '', health_version,
  health_told, state, kept_from, now_ms }
