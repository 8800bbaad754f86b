-- Begins the end of an instance, or of its work: it gets no more workers and stops those it has.
-- ARGV[1] name
-- ARGV[2] inc    of the caller; '' from an operator
-- ARGV[3] state  'leaving', 'draining', 'cordoned', or 'live' to take a drain or a cordon back
-- Returns {'leaving', workers left} | {'refused'}
local name, state = ARGV[1], ARGV[3]
local record = read_instance(name)
-- An operator's drain lasts over the lives of the instance, and is taken back between two of them as well.
local taken_back = ARGV[2] == '' and state == 'live' and redis.call('HDEL', meta, 'drain:' .. name) == 1
local function refuse() return taken_back and { 'leaving', 0 } or { 'refused' } end
if not record or record.state == 'dead' or (ARGV[2] ~= '' and record.inc ~= ARGV[2]) then return refuse() end
-- Who leaves by itself is not kept from it.
if ARGV[2] == '' and record.state == 'leaving' then return refuse() end
if ARGV[2] == '' and state == 'draining' then redis.call('HSET', meta, 'drain:' .. name, now_ms) end
if state == 'cordoned' and record.state ~= 'live' then return { 'refused' } end
record.state = state
touch(record)
changed()
if state == 'live' then
  write_instance(name, record)
  return { 'leaving', redis.call('HLEN', workers) }
end
local count = 0
for _, worker in ipairs(redis.call('HKEYS', workers)) do
  local place = read_place(worker)
  if place and place.state == 'assigned' then revoke(worker, place, state) end
  count = count + 1
end
write_instance(name, record)
note(state, NONE, name, record.inc, 'leave')
if count == 0 and state == 'leaving' then
  redis.call('HDEL', instances, name)
  redis.call('DEL', heartbeat)
end
return { 'leaving', count }
