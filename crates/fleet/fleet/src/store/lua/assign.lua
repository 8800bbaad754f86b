-- Gives waiting workers to an instance, each with a new epoch.
-- ARGV[1] name   ARGV[2] inc   ARGV[3] run   ARGV[4] why
-- ARGV[5] items  JSON [[worker, epoch], ...]
-- Returns {'assigned', workers} | {'gone'}
local name, run, why = ARGV[1], ARGV[3], ARGV[4]
local record = read_instance(name)
if not record or record.inc ~= ARGV[2] or record.state ~= 'live' then return { 'gone' } end
local count = 0
for _, item in ipairs(cjson.decode(ARGV[5])) do
  local worker = item[1]
  local place = read_place(worker)
  if place and place.state == 'pending' and place.epoch == item[2] then
    place.state, place.owner, place.run, place.wish = 'assigned', name, run, NONE
    place.epoch, place.why, place.since = draw_epoch(run), why, now_ms
    write_place(worker, place)
    redis.call('HSET', workers, worker, describe(name, place.epoch))
    note('assigned', worker, name, place.epoch, why)
    count = count + 1
  end
end
if count > 0 then
  touch(record, count)
  write_instance(name, record)
  changed()
end
return { 'assigned', count }
