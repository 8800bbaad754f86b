-- Copies the changed keys of a tag in one instant.
-- KEYS[1] meta   hash: run, gen, snap, state, token, keep
-- KEYS[2] dirty  hash: key -> token of its last registration
-- KEYS[3] index  sorted set: tag -> Unix ms since when it is dirty
-- ARGV[1] run    the node's run    ARGV[2] tag
-- Returns {'taken', gen, snap, {key, token, type, payload, expiry, ...}} | {'missing'} | {'suspect'} |
-- {'loading'}. A type 'none' says that the key is gone; expiry is Unix ms, or -1 for none.
local meta, dirty, index, run, tag = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]

local function expiry(key)
  local exact = redis.pcall('PEXPIRETIME', key)
  if type(exact) == 'number' then return exact end
  -- Before Redis 7.0.
  local left = redis.call('PTTL', key)
  if left < 0 then return -1 end
  local now = redis.call('TIME')
  return now[1] * 1000 + math.floor(now[2] / 1000) + left
end

local known = redis.call('HMGET', meta, 'run', 'state', 'gen')
if not known[1] then return {'missing'} end
if known[1] ~= run then return {'suspect'} end
if known[2] == 'loading' then return {'loading'} end

-- Everything is read before anything is written: a key that has moved to another node is an error here,
-- never a deleted key, and then nothing has changed.
local changes = {}
local names = redis.call('HGETALL', dirty)
for at = 1, #names, 2 do
  local key, token = names[at], names[at + 1]
  local payload = redis.call('DUMP', key)
  local kind, expires_at_ms = 'none', -1
  if payload then
    kind = redis.call('TYPE', key).ok
    expires_at_ms = expiry(key)
  end
  for _, value in ipairs({key, token, kind, payload or '', string.format('%.0f', expires_at_ms)}) do
    changes[#changes + 1] = value
  end
end

-- A first write that needs no memory: the others are then allowed when memory is full.
redis.call('PERSIST', meta)
if known[2] == 'evicting' then
  redis.call('HSET', meta, 'state', 'hot')
  redis.call('HDEL', meta, 'token')
end
if #names == 0 then redis.call('ZREM', index, tag) end
local snap = redis.call('HINCRBY', meta, 'snap', 1)
return {'taken', known[3], snap, changes}
