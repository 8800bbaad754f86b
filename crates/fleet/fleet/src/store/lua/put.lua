-- Creates workers that wait for a place, updates configs, and takes back uninstalls.
-- ARGV[1] run
-- ARGV[2] items    JSON [[worker, config name, demand, length of the config in bytes], ...]
-- ARGV[3] configs  one after the other
-- Returns {created, updated, taken back}
local run, from = ARGV[1], 1
local created, updated, back = 0, 0, 0
for _, item in ipairs(cjson.decode(ARGV[2])) do
  local worker, config, demand = item[1], item[2], item[3]
  local bytes = string.sub(ARGV[3], from, from + item[4] - 1)
  from = from + item[4]
  local place = read_place(worker)
  if not place then
    redis.call('HSET', configs, worker, bytes)
    write_place(worker, {
      state = 'pending', epoch = draw_epoch(run), run = run, remove = '0', config = config,
      demand = demand, wish = NONE, why = 'install', since = now_ms, owner = NONE,
    })
    created = created + 1
  else
    local back_now, new_now = place.remove == '1', place.config ~= config or place.demand ~= demand
    if new_now then redis.call('HSET', configs, worker, bytes) end
    if back_now or new_now then
      place.remove, place.config, place.demand = '0', config, demand
      write_place(worker, place)
      touch_owner(place)
    end
    if back_now then back = back + 1 end
    if new_now then updated = updated + 1 end
  end
end
if created + updated + back > 0 then changed() end
return { created, updated, back }
