-- Adds answers that finished together, each with its outcome, unless they come too late.
-- KEYS[1] request   hash as record.lua leaves it
-- ARGV[1] ttl_ms    time to live, should the hash have lost its own
-- ARGV[2] complete  milliseconds that the whole request took, or '' while answers are awaited
-- ARGV[3] late      the outcome of an answer that comes after its time
-- ARGV[4..] for each answer: name, outcome, until_ms (of the server's clock, '' for any time),
--           '1' if a body follows as a fifth, else '0' and an empty one
-- Returns {} if the request is gone, else 1 (stored) or 0 (late) for each answer, and one more 1.
local request = KEYS[1]
if redis.call('EXISTS', request) == 0 then return {} end
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local written = {}
for at = 4, #ARGV, 5 do
  local name, outcome, until_ms = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  if until_ms ~= '' and now_ms > tonumber(until_ms) then
    redis.call('HSET', request, '_outcome:' .. name, ARGV[3])
    written[#written + 1] = 0
  else
    if ARGV[at + 3] == '1' then
      redis.call('HSET', request, name, ARGV[at + 4], '_outcome:' .. name, outcome)
    else
      redis.call('HSET', request, '_outcome:' .. name, outcome)
    end
    written[#written + 1] = 1
  end
end
if ARGV[2] ~= '' then redis.call('HSET', request, '_complete', ARGV[2]) end
if redis.call('PTTL', request) < 0 then redis.call('PEXPIRE', request, ARGV[1]) end
written[#written + 1] = 1
return written
