-- Ends the youth of a pool: a process has seen this birth for as long as any use of a number can last.
-- KEYS[1] leases hash: see the prelude
-- ARGV[1] born   the birth that was seen
-- Returns {'ripe'} | {'other'}
local leases = KEYS[1]
if redis.call('HGET', leases, 'born') ~= ARGV[1] then return { 'other' } end
redis.call('HSET', leases, 'young', '0')
return { 'ripe' }
