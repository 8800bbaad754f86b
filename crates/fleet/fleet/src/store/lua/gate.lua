-- Lets an act pass only if no newer copy of its worker has acted before. For use in front of writes
-- in any Redis; it stands alone, without the prelude.
-- KEYS[1] gate  string: the highest epoch seen
-- ARGV[1] epoch of the copy that wants to act
-- Returns {1, epoch} to pass | {0, higher epoch}
local seen = tonumber(redis.call('GET', KEYS[1]) or 0)
local epoch = tonumber(ARGV[1])
if epoch < seen then return { 0, string.format('%.0f', seen) } end
if epoch > seen then redis.call('SET', KEYS[1], ARGV[1]) end
return { 1, ARGV[1] }
