-- Declares an incarnation dead whose heartbeat the caller saw unchanged for long enough; its workers
-- wait for new places at once.
-- ARGV[1] name   ARGV[2] inc   ARGV[3] beat
-- Returns {'declared', workers} | {'changed'}
local name = ARGV[1]
local record = read_instance(name)
if not record or record.inc ~= ARGV[2] or record.beat ~= ARGV[3] or record.state == 'dead' then
  return { 'changed' }
end
local count = 0
for _, worker in ipairs(redis.call('HKEYS', workers)) do
  local place = read_place(worker)
  if place and place.owner == name then
    release(worker, place, 'death')
    count = count + 1
  end
end
redis.call('DEL', workers, heartbeat)
record.state, record.count, record.since = 'dead', '0', now_ms
touch(record)
write_instance(name, record)
changed()
note('died', NONE, name, record.inc, 'lease')
return { 'declared', count }
