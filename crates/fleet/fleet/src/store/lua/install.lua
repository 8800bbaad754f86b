-- Document 000's placement: creates one worker on the least busy instance, atomically. The caller
-- chose the instance from a placement of a known version.
-- ARGV[1] name   ARGV[2] inc   ARGV[3] run   ARGV[4] version
-- ARGV[5] worker   ARGV[6] config name   ARGV[7] demand   ARGV[8] config
-- Returns {'installed', epoch} | {'stale'} | {'ALREADY_INSTALLED'}
local name, run, worker = ARGV[1], ARGV[3], ARGV[5]
local place = read_place(worker)
if place and place.remove == '0' then return { 'ALREADY_INSTALLED' } end
if place then
  -- Its old copy still stops; it is placed again when that is over.
  place.remove, place.config, place.demand = '0', ARGV[6], ARGV[7]
  redis.call('HSET', configs, worker, ARGV[8])
  write_place(worker, place)
  touch_owner(place)
  changed()
  return { 'installed', place.epoch }
end
local record = read_instance(name)
local version = redis.call('HGET', meta, 'version') or '0'
if version ~= ARGV[4] or not record or record.inc ~= ARGV[2] or record.state ~= 'live' then
  return { 'stale' }
end
local epoch = draw_epoch(run)
redis.call('HSET', configs, worker, ARGV[8])
write_place(worker, {
  state = 'assigned', epoch = epoch, run = run, remove = '0', config = ARGV[6], demand = ARGV[7],
  wish = NONE, why = 'install', since = now_ms, owner = name,
})
redis.call('HSET', workers, worker, describe(name, epoch))
touch(record, 1)
write_instance(name, record)
changed()
note('assigned', worker, name, epoch, 'install')
return { 'installed', epoch }
