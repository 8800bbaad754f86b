-- Asks owners to stop workers, so that they can move. Decided on a placement of a known version.
-- ARGV[1] version  of the placement   ARGV[2] why
-- ARGV[3] items    JSON [[worker, epoch, wished instance or '-'], ...]
-- Returns {'revoked', workers} | {'stale'}
if (redis.call('HGET', meta, 'version') or '0') ~= ARGV[1] then return { 'stale' } end
local count = 0
for _, item in ipairs(cjson.decode(ARGV[3])) do
  local place = read_place(item[1])
  if place and place.state == 'assigned' and place.epoch == item[2] then
    place.wish = item[3]
    revoke(item[1], place, ARGV[2])
    touch_owner(place)
    count = count + 1
  end
end
if count > 0 then changed() end
return { 'revoked', count }
