-- Takes a number from its holder on an operator's word. The holder is refused at its next renewal; the next
-- one waits as for any number that may still be in use.
-- KEYS[1] ids      sorted set: member -> expiry in Unix seconds
-- KEYS[2] clients  hash: member -> owner
-- KEYS[3] leases   hash: see the prelude
-- ARGV[1] member   ARGV[2] forget_ceiling 0|1   ARGV[3] caller_now Unix seconds
-- Returns {'freed', name of the holder, ceil_ms} | {'missing'}
local ids, clients, leases = KEYS[1], KEYS[2], KEYS[3]
local member = ARGV[1]
local lease = read_lease(ids, clients, leases, member)
if not lease.listed then return { 'missing' } end
local score = seconds((clock(ARGV[3])))
if ARGV[2] == '1' then write_lease(leases, member, { ceil = '0' }) end
if lease.token then
  write_lease(leases, member, { token = '', open = '0', exact = '0', score = score })
  if lease.token ~= '' and redis.call('HGET', leases, 'token:' .. lease.token) == member then
    redis.call('HDEL', leases, 'token:' .. lease.token)
  end
end
redis.call('HDEL', clients, member)
redis.call('ZADD', ids, score, member)
return { 'freed', lease.name or '', lease.ceil or '0' }
