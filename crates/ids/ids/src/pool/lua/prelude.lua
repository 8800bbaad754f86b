-- Begins every script of the pool; not a script by itself.
-- leases holds, per number, "MEMBER.field": owner, name, token ('' = released), last_token (kept after a
-- release), fence, ceil (Unix ms), run, open ('1' = the holder's delay was over), exact ('1' = ceil is the
-- last time really used), score. Besides: "name:NAME" and "token:TOKEN" -> member, "fence" and "fence_run"
-- (the counter), "reserve_max" (longest reservation asked for), "bound" (longest use time, ms), "born"
-- (random, new with the pool), "young" ('1' = holders from before this birth may still use numbers, for up
-- to the longest use time that any settings allow), "unused_run" (the run in which an operator vouched that
-- nobody uses the numbers, or '').

-- The time in Unix seconds and whose it is: the server's if scripts are replicated by their effects
-- (Redis 3.2 and later), else the caller's.
local function clock(caller_now)
  local effects = redis.REDIS_VERSION_NUM ~= nil
  if not effects and redis.replicate_commands then effects = redis.replicate_commands() end
  if not effects then return tonumber(caller_now), 'caller' end
  local time = redis.call('TIME')
  return tonumber(time[1]) + tonumber(time[2]) / 1000000, 'server'
end

local function seconds(value) return string.format('%.6f', value) end

local function whole(value) return string.format('%.0f', value) end

-- The record of a number. It is intact if nobody wrote the number's score or owner behind its back,
-- as an original yaraus client does.
local function read_lease(ids, clients, leases, member)
  local dot = member .. '.'
  local values = redis.call('HMGET', leases, dot .. 'owner', dot .. 'name', dot .. 'token', dot .. 'fence',
    dot .. 'ceil', dot .. 'run', dot .. 'open', dot .. 'score', dot .. 'last_token', dot .. 'exact')
  local lease = {
    owner = values[1], name = values[2], token = values[3], fence = values[4],
    ceil = values[5], run = values[6], open = values[7], score = values[8],
    last_token = values[9], exact = values[10],
  }
  local owner = redis.call('HGET', clients, member)
  lease.client = owner
  lease.listed = redis.call('ZSCORE', ids, member)
  if not lease.token or not lease.listed then
    lease.intact = false
  elseif lease.token == '' then
    lease.intact = not owner and tonumber(lease.listed) == tonumber(lease.score)
  else
    lease.intact = owner == lease.owner
  end
  return lease
end

local function write_lease(leases, member, changes)
  local pairs_flat = {}
  for field, value in pairs(changes) do
    pairs_flat[#pairs_flat + 1] = member .. '.' .. field
    pairs_flat[#pairs_flat + 1] = value
  end
  redis.call('HMSET', leases, unpack(pairs_flat))
end

