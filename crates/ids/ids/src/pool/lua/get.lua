-- Gives out a number: the one the caller's token holds, else the one its name had, else the one that
-- expired longest ago. Every grant has a new fence. A number whose ceiling lies further ahead than the
-- caller would wait for is passed over and keeps its record and its place.
-- KEYS[1] ids      sorted set: member -> expiry in Unix seconds
-- KEYS[2] clients  hash: member -> owner
-- KEYS[3] stats    hash: counters
-- KEYS[4] leases   hash: see the prelude
-- ARGV[1] owner      ARGV[2] name     ARGV[3] token   ARGV[4] run
-- ARGV[5] ceil_ms    ARGV[6] reserve_s
-- ARGV[7] proof      token of a process known to be over, or ''
-- ARGV[8] caller_now Unix seconds
-- ARGV[9] now_ms     the clock that the caller's ids carry    ARGV[10] ahead_ms  the longest wait for it
-- ARGV[11] bound_ms  the longest use time in the pool, as the caller's settings have it
-- Returns {'granted', member, fence, floor_ms, at_once 0|1, proved 0|1, clock, born of a young pool or ''}
--       | {'none', seconds until the first expires, clock} | {'late', member, ceil_ms, clock}
--       | {'bound', bound_ms of the pool} | {'missing'}
local ids, clients, stats, leases = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, name, token, run = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local ceil_ms, reserve_s, proof = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local reach_ms, bound_ms = tonumber(ARGV[9]) + tonumber(ARGV[10]), ARGV[11]
local FENCE_JUMP = 1048576
local MICROS_PER_S = 1000000
local CHUNK = 256

redis.call('HINCRBY', stats, 'get_id_count', 1)
if redis.call('EXISTS', ids) == 0 then
  redis.call('HINCRBY', stats, 'get_id_no_available_id', 1)
  return { 'missing' }
end
local now, source = clock(ARGV[8])
local founding = redis.call('HMGET', leases, 'bound', 'young', 'born', 'unused_run')
if not founding[1] then
  -- A pool of yaraus, or of an earlier version: nobody knows how long its holders use their numbers.
  founding = { bound_ms, '1', token, false }
  redis.call('HMSET', leases, 'bound', bound_ms, 'young', '1', 'born', token)
elseif founding[1] ~= bound_ms then
  return { 'bound', founding[1] }
end

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
  local mine = lease.intact and lease[field] == value
  if mine and tonumber(lease.ceil or 0) <= reach_ms then return lease end
  return nil
end

-- The expired number that is first in line among those within reach; else the one with the lowest ceiling
-- and that ceiling.
local function next_expired()
  local at, count = 0, 1
  local lowest, lowest_ceil
  while true do
    local chunk = redis.call('ZRANGEBYSCORE', ids, '-inf', '(' .. seconds(now), 'LIMIT', at, count)
    if #chunk == 0 then return nil, lowest, lowest_ceil end
    local fields = {}
    for i, one in ipairs(chunk) do fields[i] = one .. '.ceil' end
    for i, ceil in ipairs(redis.call('HMGET', leases, unpack(fields))) do
      ceil = tonumber(ceil or 0)
      if ceil <= reach_ms then return chunk[i] end
      if not lowest or ceil < lowest_ceil then
        lowest, lowest_ceil = chunk[i], ceil
      end
    end
    at, count = at + count, CHUNK
  end
end

local member = redis.call('HGET', leases, 'token:' .. token)
local lease = own(member, 'token', token)
if not lease then
  member = redis.call('HGET', leases, 'name:' .. name)
  lease = own(member, 'name', name)
end
if not lease then
  local lowest, lowest_ceil
  member, lowest, lowest_ceil = next_expired()
  if not member then
    redis.call('HINCRBY', stats, 'get_id_no_available_id', 1)
    if lowest then return { 'late', lowest, whole(lowest_ceil), source } end
    local first = redis.call('ZRANGE', ids, 0, 0, 'WITHSCORES')
    return { 'none', seconds(math.max(tonumber(first[2]) - now, 0)), source }
  end
  lease = read_lease(ids, clients, leases, member)
end

-- Nobody can be using the number: its last user named the last time that it used and gave it back, or is
-- proven over and was of this name, or there was none since an operator vouched for the pool. A record of
-- another run may lack what happened since.
local proved = lease.intact and proof ~= '' and lease.name == name and (lease.last_token or lease.token) == proof
local released = lease.intact and lease.token == '' and lease.exact == '1'
local never_used = not lease.token and not lease.client and tonumber(lease.listed) == 0
local at_once = (released or proved) and lease.run == run and lease.open == '1'
  or never_used and founding[2] ~= '1' and founding[4] == run

local counter = redis.call('HMGET', leases, 'fence', 'fence_run')
local fence = tonumber(counter[1] or 0) + 1
if counter[2] ~= run then
  fence = math.max(tonumber(counter[1] or 0) + FENCE_JUMP, math.floor(now * MICROS_PER_S))
end
redis.call('HMSET', leases, 'fence', whole(fence), 'fence_run', run)

local function drop_index(index)
  if redis.call('HGET', leases, index) == member then redis.call('HDEL', leases, index) end
end
if lease.token and lease.token ~= '' then drop_index('token:' .. lease.token) end
if lease.name then drop_index('name:' .. lease.name) end
redis.call('HMSET', leases, 'token:' .. token, member, 'name:' .. name, member)

local floor_ms = tonumber(lease.ceil or 0)
local score = seconds(now + reserve_s)
write_lease(leases, member, {
  owner = owner,
  name = name,
  token = token,
  last_token = token,
  fence = whole(fence),
  ceil = whole(math.max(floor_ms, ceil_ms)),
  run = run,
  open = at_once and '1' or '0',
  exact = '0',
  score = score,
})
redis.call('ZADD', ids, score, member)
redis.call('HSET', clients, member, owner)
redis.call('HINCRBY', stats, 'get_id_success', 1)
return {
  'granted', member, whole(fence), whole(floor_ms), at_once and 1 or 0, proved and 1 or 0, source,
  founding[2] == '1' and founding[3] or '',
}
