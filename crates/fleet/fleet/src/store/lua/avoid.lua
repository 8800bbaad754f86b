-- Keeps workers from the instances on which they failed, for a while.
-- ARGV[1] avoid_ms
-- ARGV[2] items     JSON [[worker, instance], ...]
-- Returns number of workers
local until_ms, count = tonumber(now_ms) + tonumber(ARGV[1]), 0
for _, item in ipairs(cjson.decode(ARGV[2])) do
  local worker, instance = item[1], item[2]
  if read_place(worker) then
    local kept = { instance .. '@' .. whole(until_ms) }
    for name, ms in string.gmatch(redis.call('HGET', avoid, worker) or '', '([^,@]+)@(%d+)') do
      if name ~= instance and tonumber(ms) > tonumber(now_ms) then kept[#kept + 1] = name .. '@' .. ms end
    end
    redis.call('HSET', avoid, worker, table.concat(kept, ','))
    note('avoids', worker, instance, '0', 'failing')
    count = count + 1
  end
end
if count > 0 then health_changed() end
return count
