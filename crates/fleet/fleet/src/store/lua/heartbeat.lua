-- Says that an incarnation lives, and tells it its list: lease and list in one answer.
-- ARGV[1] name   ARGV[2] inc   ARGV[3] run
-- ARGV[4] known      version of the list that the caller has, '' if none
-- ARGV[5] running    '' if the caller's last confirmed heartbeat had this run; else JSON {worker: epoch}
-- ARGV[6] heartbeat_ms
-- ARGV[7] waited     '1' if all who had the name before are over
-- ARGV[8] again      '' or JSON {worker: epoch}: copies that have ended and are to be started again
-- ARGV[9] health     '' or JSON {worker: [epoch, state, failures, reason]}: what has changed
-- Returns {'refused', state, token, inc} (of whoever has the name) | {'same', settled, version} | {'list', settled, version, list}
local name, inc, run, known = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local record = read_instance(name)
if not record or record.inc ~= inc or record.state == 'dead' then
  if not record then return { 'refused', '', '', '0' } end
  return { 'refused', record.state, record.token, record.inc }
end
local renewed = false
-- No epoch is started twice, so whoever starts again gets a new one, in the answer to this very call.
if ARGV[8] ~= '' then
  for worker, epoch in pairs(cjson.decode(ARGV[8])) do
    local place = read_place(worker)
    if place and place.owner == name and place.state == 'assigned' and place.epoch == epoch then
      place.epoch, place.run = draw_epoch(run), run
      write_place(worker, place)
      redis.call('HSET', workers, worker, describe(name, place.epoch))
      note('renewed', worker, name, place.epoch, 'again')
      touch(record)
      renewed = true
    end
  end
end
-- A new run may have lost what happened last. What runs on goes on; what does not run gets a new
-- epoch, because somebody else may have run it meanwhile.
if ARGV[5] ~= '' then
  local running = cjson.decode(ARGV[5])
  for _, worker in ipairs(redis.call('HKEYS', workers)) do
    local place = read_place(worker)
    if place and not place.broken and place.run ~= run then
      if running[worker] ~= place.epoch then
        place.epoch = draw_epoch(run)
        renewed = true
        note('renewed', worker, name, place.epoch, 'run')
      end
      place.run = run
      write_place(worker, place)
      touch(record)
    end
  end
end
-- Whoever decides by epochs has to read them again.
if renewed then changed() end
if ARGV[9] ~= '' then
  for worker, now in pairs(cjson.decode(ARGV[9])) do
    local place = read_place(worker)
    -- What is said of a copy that is not this instance's any more is of no use to anybody.
    if place and place.owner == name then
      redis.call('HSET', health, worker, table.concat({ name, now[1], now[2], now[3], now_ms, now[4] }, ' '))
    end
  end
  health_changed()
end
record.beat = whole(tonumber(record.beat) + 1)
if ARGV[7] == '1' then record.before = NONE end
write_instance(name, record)
redis.call('SET', heartbeat, now_ms, 'PX', ARGV[6])
local settled = redis.call('HGET', meta, 'settled') or ''
if known == record.version then return { 'same', settled, record.version } end
return { 'list', settled, record.version, list() }
