-- Removes the record of a dead incarnation.
-- ARGV[1] name   ARGV[2] inc
-- Returns 1 | 0
local record = read_instance(ARGV[1])
if not record or record.inc ~= ARGV[2] or record.state ~= 'dead' then return 0 end
redis.call('HDEL', instances, ARGV[1])
return 1
