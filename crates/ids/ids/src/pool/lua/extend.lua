-- Renews a number if the caller still holds it. A reservation that ran out does not refuse by itself.
-- KEYS[1] ids      sorted set: member -> expiry in Unix seconds
-- KEYS[2] clients  hash: member -> owner
-- KEYS[3] stats    hash: counters
-- KEYS[4] leases   hash: see the prelude
-- ARGV[1] member     ARGV[2] owner    ARGV[3] token   ARGV[4] fence   ARGV[5] run
-- ARGV[6] seen_run   run of the last answer that the caller got
-- ARGV[7] ceil_ms    ARGV[8] reserve_s
-- ARGV[9] phase      'waiting' | 'delay_over' | 'in_use' (the window was unbroken when sent) | 'lapsed'
-- ARGV[10] caller_now Unix seconds
-- ARGV[11] bound_ms  the longest use time in the pool, as the caller's settings have it
-- Returns {'extended', run_changed 0|1, ceil_ms, clock, numbers that are not reserved}
--       | {'refused', 'missing' | 'robbed' | 'run' | 'bound', name of the holder now}
local ids, clients, stats, leases = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local member, owner, token, fence, run = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local seen_run, ceil_ms, reserve_s, phase = ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9]

redis.call('HINCRBY', stats, 'extend_ttl_count', 1)
local lease = read_lease(ids, clients, leases, member)
if not lease.listed then
  redis.call('HINCRBY', stats, 'extend_ttl_ownership_error', 1)
  return { 'refused', 'missing', '' }
end
if not lease.intact or lease.owner ~= owner or lease.token ~= token or lease.fence ~= fence then
  redis.call('HINCRBY', stats, 'extend_ttl_ownership_error', 1)
  return { 'refused', 'robbed', lease.intact and lease.name or '' }
end
local bound_ms = redis.call('HGET', leases, 'bound')
if bound_ms and bound_ms ~= ARGV[11] then return { 'refused', 'bound', lease.name } end
-- The record alone does not tell: a renewal whose answer was lost has already put its run there.
local changed = lease.run ~= run or seen_run ~= run
if changed and phase ~= 'in_use' then
  return { 'refused', 'run', lease.name }
end

local now, source = clock(ARGV[10])
if tonumber(lease.listed) < now then
  redis.call('HINCRBY', stats, 'extend_ttl_expire_warning', 1)
end
local open = lease.open
if changed then
  open = '0'
elseif phase == 'in_use' or phase == 'delay_over' then
  open = '1'
end
local ceil = whole(math.max(tonumber(lease.ceil or 0), ceil_ms))
local score = seconds(now + reserve_s)
write_lease(leases, member, { ceil = ceil, run = run, open = open, score = score })
redis.call('ZADD', ids, score, member)
redis.call('HINCRBY', stats, 'extend_ttl_success', 1)
local free = redis.call('ZCOUNT', ids, '-inf', '(' .. seconds(now))
return { 'extended', changed and 1 or 0, ceil, source, free }
