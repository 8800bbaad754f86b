-- Removes workers: at once if nobody has them, else when their owners have stopped them.
-- ARGV[1] workers  JSON [worker, ...]
-- Returns {removed, stopping, unknown}
local removed, stopping, unknown = 0, 0, 0
for _, worker in ipairs(cjson.decode(ARGV[1])) do
  local place = read_place(worker)
  if not place or place.remove == '1' then
    unknown = unknown + 1
  elseif place.state == 'pending' or place.broken then
    forget(worker)
    note('removed', worker, NONE, place.epoch, 'uninstall')
    removed = removed + 1
  else
    place.remove = '1'
    if place.state == 'assigned' then
      revoke(worker, place, 'uninstall')
    else
      write_place(worker, place)
    end
    touch_owner(place)
    stopping = stopping + 1
  end
end
if removed + stopping > 0 then changed() end
return { removed, stopping, unknown }
