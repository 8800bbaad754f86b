-- Reads the instances and, if asked for, one worker or all of them; changes nothing.
-- ARGV[1] workers  '' for none, '*' for all unless the placement still has version ARGV[3], else one
-- ARGV[2] worker   the one, if ARGV[1] is '1'
-- ARGV[3] known    version of the placement that the caller has
-- Returns {settled, version, instances (name, record, ...), 1 if workers follow,
--          places (worker, record, ...), birth, timing}
local version = redis.call('HGET', meta, 'version') or '0'
local found, told = {}, 0
if ARGV[1] == '*' and ARGV[3] ~= version then
  found, told = redis.call('HGETALL', places), 1
elseif ARGV[1] == '1' then
  local line = redis.call('HGET', places, ARGV[2])
  if line then found = { ARGV[2], line } end
  told = 1
end
return { redis.call('HGET', meta, 'settled') or '', version, redis.call('HGETALL', instances), told, found,
  redis.call('HGET', meta, 'birth') or '', redis.call('HGET', meta, 'timing') or '' }
