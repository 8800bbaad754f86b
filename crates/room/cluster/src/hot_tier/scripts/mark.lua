-- Marks a tag for eviction that has nothing dirty, also over another evictor's mark.
-- KEYS[1] meta   hash: run, gen, snap, state, token, keep
-- KEYS[2] dirty  hash: key -> token of its last registration
-- ARGV[1] run    the node's run    ARGV[2] token  of this eviction
-- Returns 'marked' | 'dirty' | 'missing' | 'suspect' | 'loading'
local meta, dirty, run, token = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
if redis.call('HLEN', dirty) > 0 then return 'dirty' end
local known = redis.call('HMGET', meta, 'run', 'state')
if not known[1] then return 'missing' end
if known[1] ~= run then return 'suspect' end
if known[2] == 'loading' then return 'loading' end
-- A first write that needs no memory: an eviction must be possible when memory is full.
redis.call('PERSIST', meta)
redis.call('HSET', meta, 'state', 'evicting', 'token', token)
return 'marked'
