-- Begins a new incarnation of an instance. All its workers get new epochs: what the last incarnation
-- had is over or will be.
-- ARGV[1] name   ARGV[2] token (of the process)   ARGV[3] run
-- ARGV[4] weight   ARGV[5] capacity   ARGV[6] zone   ARGV[7] labels   ARGV[8] heartbeat_ms
-- ARGV[9] timing  lease and drift; all instances that are not dead have the same
-- Returns {inc, settled, before, list version, list} | {'', timing of the others}
local BEFORE_MAX = 1000
local name, token, run = ARGV[1], ARGV[2], ARGV[3]
local agreed = redis.call('HGET', meta, 'timing')
if agreed and agreed ~= ARGV[9] then
  -- Somebody who runs by the other lease may not be waited for long enough.
  for _, line in ipairs(redis.call('HVALS', instances)) do
    if string.sub(line, 1, 5) ~= 'dead ' then return { '', agreed } end
  end
end
redis.call('HSET', meta, 'timing', ARGV[9])
local old = read_instance(name)
local inc = draw_epoch(run)
-- Who had the name and may still run workers, until somebody says that they are over or waited for
-- them. A join that is carried out twice must not forget them.
local before = NONE
if old and old.state ~= 'dead' then
  before = old.before
  if old.token ~= token then
    before = before == NONE and old.token or before .. ',' .. old.token
  end
  if #before > BEFORE_MAX then before = 'many' end
end
for _, worker in ipairs(redis.call('HKEYS', workers)) do
  local place = read_place(worker)
  if place and not place.broken then
    place.epoch, place.run = draw_epoch(run), run
    write_place(worker, place)
    redis.call('HSET', workers, worker, describe(name, place.epoch))
    note('renewed', worker, name, place.epoch, 'join')
  end
end
local record = {
  state = redis.call('HEXISTS', meta, 'drain:' .. name) == 1 and 'draining' or 'live',
  inc = inc,
  beat = '1',
  token = token,
  before = before,
  version = old and whole(tonumber(old.version) + 1) or '1',
  count = whole(redis.call('HLEN', workers)),
  weight = ARGV[4],
  capacity = ARGV[5],
  zone = ARGV[6],
  labels = ARGV[7],
  since = now_ms,
}
write_instance(name, record)
redis.call('SET', heartbeat, now_ms, 'PX', ARGV[8])
changed()
note('joined', NONE, name, inc, old and old.state or 'new')
return { inc, redis.call('HGET', meta, 'settled') or '', before, record.version, list() }
