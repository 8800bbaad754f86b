-- Acknowledges that revoked workers are stopped: the processes are gone.
-- ARGV[1] name   ARGV[2] inc   ARGV[3] items  JSON [[worker, epoch], ...]
-- Returns {'stopped', workers, 1 if the instance has left with that} | {'refused'}
local name = ARGV[1]
local record = read_instance(name)
if not record or record.inc ~= ARGV[2] or record.state == 'dead' then return { 'refused' } end
local count = 0
for _, item in ipairs(cjson.decode(ARGV[3])) do
  local worker = item[1]
  local place = read_place(worker)
  if place and place.owner == name and place.state == 'revoking' and place.epoch == item[2] then
    redis.call('HDEL', workers, worker)
    note('stopped', worker, name, place.epoch, place.why)
    release(worker, place, place.why)
    count = count + 1
  end
end
local left = 0
if count > 0 then
  touch(record, -count)
  write_instance(name, record)
  changed()
end
if record.state == 'leaving' and redis.call('HLEN', workers) == 0 then
  redis.call('HDEL', instances, name)
  redis.call('DEL', heartbeat)
  changed()
  note('left', NONE, name, record.inc, 'leave')
  left = 1
end
return { 'stopped', count, left }
