-- Gives a number back: it goes to the end of the queue.
-- KEYS[1] ids      sorted set: member -> expiry in Unix seconds
-- KEYS[2] clients  hash: member -> owner
-- KEYS[3] leases   hash: see the prelude
-- ARGV[1] member     ARGV[2] owner    ARGV[3] token   ARGV[4] fence   ARGV[5] run
-- ARGV[6] ceil_ms    no later time was used
-- ARGV[7] caller_now Unix seconds
-- ARGV[8] exact      '1' = that is the last time really used, so that anybody may begin above it at once
-- Returns {'released'} | {'refused', 'missing' | 'robbed', name of the holder now}
local ids, clients, leases = KEYS[1], KEYS[2], KEYS[3]
local member, owner, token, fence, run = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local lease = read_lease(ids, clients, leases, member)
if not lease.listed then return { 'refused', 'missing', '' } end
if not lease.intact or lease.owner ~= owner or lease.token ~= token or lease.fence ~= fence then
  return { 'refused', 'robbed', lease.intact and lease.name or '' }
end
local score = seconds((clock(ARGV[7])))
local open = lease.open
if lease.run ~= run then open = '0' end
write_lease(leases, member, {
  token = '', ceil = ARGV[6], run = run, open = open, exact = ARGV[8], score = score,
})
if redis.call('HGET', leases, 'token:' .. token) == member then
  redis.call('HDEL', leases, 'token:' .. token)
end
redis.call('HDEL', clients, member)
redis.call('ZADD', ids, score, member)
return { 'released' }
