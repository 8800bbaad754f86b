-- Installs one chunk of what a claim has read.
-- KEYS[1] meta   hash: run, gen, snap, state, token, keep
-- KEYS[2] dirty  hash: key -> token of its last registration
-- KEYS[3] index  sorted set: tag -> Unix ms since when it is dirty
-- KEYS[4] quiet  string: there while keys are moved, for who hears of changed keys
-- KEYS[5..]      keys of the rows, then tombstoned keys
-- ARGV[1] run    the node's run    ARGV[2] token       of this load    ARGV[3] tag
-- ARGV[4] gen    of the claim      ARGV[5] saved_gen   ARGV[6] saved_snap  of the last commit
-- ARGV[7] part   'last' | 'more'   ARGV[8] rows        how many
-- ARGV[9..]      payload and expiry (Unix ms, 0 for none) of each row
-- Returns 'lost' | 'kept' | 'put'
local meta, dirty, index, quiet = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local run, token, tag, gen, part = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[7]
local saved_gen, saved_snap, rows = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[8])

local function become_hot()
  redis.call('HSET', meta, 'state', 'hot', 'gen', gen, 'snap', 0, 'keep', 'no')
  redis.call('HDEL', meta, 'token')
end

-- Both are events of the class that unlinked and restored keys have, too.
local function begin_quiet()
  -- A write that needs no memory goes first where only names are taken away: that may be when memory is full.
  if rows == 0 then redis.call('PERSIST', meta) end
  redis.call('SET', quiet, '1', 'PX', 1000)
end

local function end_quiet()
  redis.call('DEL', quiet)
end

local known = redis.call('HMGET', meta, 'run', 'state', 'token', 'keep', 'gen', 'snap')
if known[1] ~= run then return 'lost' end
if known[2] ~= 'loading' or known[3] ~= token then return 'lost' end
if known[4] == 'yes' then
  local own_gen, own_snap = tonumber(known[5]), tonumber(known[6])
  if saved_gen < own_gen or (saved_gen == own_gen and saved_snap <= own_snap) then
    become_hot()
    return 'kept'
  end
  begin_quiet()
  -- Memory is behind its own backup. 'keep' goes last: whoever repeats this after a failure in the
  -- middle must come here again.
  for _, name in ipairs(redis.call('HKEYS', dirty)) do
    redis.call('UNLINK', name)
  end
  end_quiet()
  redis.call('DEL', dirty)
  redis.call('ZREM', index, tag)
  redis.call('HSET', meta, 'keep', 'no')
end
if #KEYS > 4 then
  begin_quiet()
  for at = 1, rows do
    local payload, expires_at_ms = ARGV[7 + 2 * at], ARGV[8 + 2 * at]
    local put = redis.pcall('RESTORE', KEYS[4 + at], expires_at_ms, payload, 'REPLACE', 'ABSTTL')
    if put.err then
      end_quiet()
      return put
    end
  end
  for at = 5 + rows, #KEYS do
    redis.call('UNLINK', KEYS[at])
  end
  end_quiet()
end
if part == 'last' then become_hot() end
return 'put'
