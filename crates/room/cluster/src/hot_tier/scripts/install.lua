-- Installs one chunk of what a claim has read.
-- KEYS[1] meta   hash: run, gen, snap, state, token, keep
-- KEYS[2] dirty  hash: key -> token of its last registration
-- KEYS[3] index  sorted set: tag -> Unix ms since when it is dirty
-- KEYS[4..]      keys of the rows, then tombstoned keys
-- ARGV[1] run    the node's run    ARGV[2] token       of this load    ARGV[3] tag
-- ARGV[4] gen    of the claim      ARGV[5] saved_gen   ARGV[6] saved_snap  of the last commit
-- ARGV[7] part   'last' | 'more'   ARGV[8] rows        how many
-- ARGV[9..]      payload and expiry (Unix ms, 0 for none) of each row
-- Returns 'lost' | 'kept' | 'put'
local meta, dirty, index = KEYS[1], KEYS[2], KEYS[3]
local run, token, tag, gen, part = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[7]
local saved_gen, saved_snap, rows = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[8])

local function become_hot()
  redis.call('HSET', meta, 'state', 'hot', 'gen', gen, 'snap', 0, 'keep', 'no')
  redis.call('HDEL', meta, 'token')
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
  -- Memory is behind its own backup. 'keep' goes last: whoever repeats this after a failure in the
  -- middle must come here again.
  for _, name in ipairs(redis.call('HKEYS', dirty)) do
    redis.call('UNLINK', name)
  end
  redis.call('DEL', dirty)
  redis.call('ZREM', index, tag)
  redis.call('HSET', meta, 'keep', 'no')
end
for at = 1, rows do
  local payload, expires_at_ms = ARGV[7 + 2 * at], ARGV[8 + 2 * at]
  redis.call('RESTORE', KEYS[3 + at], expires_at_ms, payload, 'REPLACE', 'ABSTTL')
end
for at = 4 + rows, #KEYS do
  redis.call('UNLINK', KEYS[at])
end
if part == 'last' then become_hot() end
return 'put'
