-- Gives out a number: the one the caller's token holds, else the one its name had, else the one that
-- expired longest ago. Every grant has a new fence.
-- KEYS[1] ids      sorted set: member -> expiry in Unix seconds
-- KEYS[2] clients  hash: member -> owner
-- KEYS[3] stats    hash: counters
-- KEYS[4] leases   hash: see the prelude
-- ARGV[1] owner      ARGV[2] name     ARGV[3] token   ARGV[4] run
-- ARGV[5] ceil_ms    ARGV[6] reserve_s
-- ARGV[7] proof      token of a process known to be over, or ''
-- ARGV[8] caller_now Unix seconds
-- Returns {'granted', member, fence, floor_ms, at_once 0|1, proved 0|1, clock}
--       | {'none', seconds until the first expires, clock} | {'missing'}
local ids, clients, stats, leases = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, name, token, run = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local ceil_ms, reserve_s, proof = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local FENCE_JUMP = 1048576
local MICROS_PER_S = 1000000

redis.call('HINCRBY', stats, 'get_id_count', 1)
if redis.call('EXISTS', ids) == 0 then
  redis.call('HINCRBY', stats, 'get_id_no_available_id', 1)
  return { 'missing' }
end
local now, source = clock(ARGV[8])

-- A reservation further ahead than any could reach means that the clock went back: without a cut the
-- number would stay away for as long as that.
local reserve_max = tonumber(redis.call('HGET', leases, 'reserve_max') or 0)
if reserve_s > reserve_max then
  reserve_max = reserve_s
  redis.call('HSET', leases, 'reserve_max', seconds(reserve_s))
end
local latest = seconds(now + reserve_max)
for _, far in ipairs(redis.call('ZRANGEBYSCORE', ids, '(' .. latest, '+inf')) do
  if read_lease(ids, clients, leases, far).intact then
    redis.call('ZADD', ids, latest, far)
    write_lease(leases, far, { score = latest })
  end
end

local function own(member, field, value)
  if not member then return nil end
  local lease = read_lease(ids, clients, leases, member)
  if lease.intact and lease[field] == value then return lease end
  return nil
end

local member = redis.call('HGET', leases, 'token:' .. token)
local lease = own(member, 'token', token)
if not lease then
  member = redis.call('HGET', leases, 'name:' .. name)
  lease = own(member, 'name', name)
end
if not lease then
  local first = redis.call('ZRANGE', ids, 0, 0, 'WITHSCORES')
  member = first[1]
  if tonumber(first[2]) >= now then
    redis.call('HINCRBY', stats, 'get_id_no_available_id', 1)
    return { 'none', seconds(tonumber(first[2]) - now), source }
  end
  lease = read_lease(ids, clients, leases, member)
end

local proved = lease.intact and proof ~= '' and lease.token == proof
local over = lease.intact and (lease.token == '' or proved)
local at_once = over and lease.run == run and lease.open == '1'

local counter = redis.call('HMGET', leases, 'fence', 'fence_run')
local fence = tonumber(counter[1] or 0) + 1
if counter[2] ~= run then
  fence = math.max(tonumber(counter[1] or 0) + FENCE_JUMP, math.floor(now * MICROS_PER_S))
end
redis.call('HMSET', leases, 'fence', whole(fence), 'fence_run', run)

if lease.token and lease.token ~= '' then redis.call('HDEL', leases, 'token:' .. lease.token) end
if lease.name and redis.call('HGET', leases, 'name:' .. lease.name) == member then
  redis.call('HDEL', leases, 'name:' .. lease.name)
end
redis.call('HMSET', leases, 'token:' .. token, member, 'name:' .. name, member)

local floor_ms = tonumber(lease.ceil or 0)
local score = seconds(now + reserve_s)
write_lease(leases, member, {
  owner = owner,
  name = name,
  token = token,
  fence = whole(fence),
  ceil = whole(math.max(floor_ms, ceil_ms)),
  run = run,
  open = at_once and '1' or '0',
  score = score,
})
redis.call('ZADD', ids, score, member)
redis.call('HSET', clients, member, owner)
redis.call('HINCRBY', stats, 'get_id_success', 1)
return { 'granted', member, whole(fence), whole(floor_ms), at_once and 1 or 0, proved and 1 or 0, source }
