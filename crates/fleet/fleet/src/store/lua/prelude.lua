-- Begins every script of the fleet; not a script by itself.
-- KEYS[1] instances  hash: name -> STATE INC BEAT TOKEN BEFORE VERSION COUNT WEIGHT CAPACITY ZONE LABELS
--                    SINCE; BEFORE are the processes that had the name and may still run workers
-- KEYS[2] places     hash: worker -> STATE EPOCH RUN REMOVE CONFIG DEMAND WISH WHY SINCE OWNER
-- KEYS[3] meta       hash: epoch, epoch_run (the counter), settled (a run), version (of the placement),
--                    birth (Unix microseconds; another one means that everything was lost),
--                    timing (lease and drift that the instances agree on), health (version of it and of
--                    avoid), drain:NAME (an operator's drain, which lasts over the instance's lives)
-- KEYS[4] configs    hash: worker -> config, any bytes; never read or changed by a script
-- KEYS[5] events     stream: what happened, newest last
-- KEYS[6] health     hash: worker -> INSTANCE EPOCH STATE FAILURES SINCE REASON; the reason may contain spaces
-- KEYS[7] avoid      hash: worker -> INSTANCE@MS,...: where it failed, and until when it is kept from there
-- Scripts about one instance have two more:
-- KEYS[8] workers    hash: worker -> JSON for readers of document 000's layout; its fields are the list
-- KEYS[9] heartbeat  string with a time to live, for such readers; nothing is decided by it
-- A record is one line of words without spaces; '-' stands for none. Times are Unix milliseconds.

local EPOCH_JUMP = 1048576
-- A script that draws many writes the counter ahead; those it does not use are never drawn.
local EPOCHS_AHEAD = 63
local EVENTS_MAX = 10000
local NONE = '-'
local INSTANCE = { 'state', 'inc', 'beat', 'token', 'before', 'version', 'count', 'weight', 'capacity',
  'zone', 'labels', 'since' }
local PLACE = { 'state', 'epoch', 'run', 'remove', 'config', 'demand', 'wish', 'why', 'since', 'owner' }

local instances, places, meta, configs, events = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local health, avoid, workers, heartbeat = KEYS[6], KEYS[7], KEYS[8], KEYS[9]

-- Redis before 5 needs to be told that it replicates what a script did and not the script.
if not redis.REDIS_VERSION_NUM and redis.replicate_commands then redis.replicate_commands() end

local function whole(number) return string.format('%.0f', number) end

local time = redis.call('TIME')
local now_ms = whole(tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000))

local function read(key, field, names)
  local line = redis.call('HGET', key, field)
  if not line then return nil end
  local record, at = {}, 1
  for word in string.gmatch(line, '%S+') do
    record[names[at] or ''] = word
    at = at + 1
  end
  if at == #names + 1 then return record end
  -- Somebody else wrote it. It stays as it is, and no script does anything with it.
  record = { broken = true }
  for _, name in ipairs(names) do record[name] = '0' end
  record.state, record.owner = 'broken', NONE
  return record
end

local function write(key, field, names, record)
  if record.broken then return end
  local words = {}
  for at, name in ipairs(names) do words[at] = record[name] end
  redis.call('HSET', key, field, table.concat(words, ' '))
end

local function read_instance(name) return read(instances, name, INSTANCE) end

local function write_instance(name, record) write(instances, name, INSTANCE, record) end

local function read_place(worker) return read(places, worker, PLACE) end

local function write_place(worker, record) write(places, worker, PLACE, record) end

-- Says that an instance's list is not the one it was, and by how many workers it grew.
local function touch(record, grown)
  record.version = whole(tonumber(record.version) + 1)
  record.count = whole(tonumber(record.count) + (grown or 0))
end

local function touch_owner(place)
  local record = place.owner ~= NONE and read_instance(place.owner)
  if record then
    touch(record)
    write_instance(place.owner, record)
  end
end

-- Says that the placement is not the one it was.
local function changed() return redis.call('HINCRBY', meta, 'version', 1) end

-- Says that the workers do not do as they did.
local function health_changed() return redis.call('HINCRBY', meta, 'health', 1) end

-- A number above every one drawn before. Under a run that did not draw the last one some may have
-- been lost, so it jumps, and never stays below the clock.
local drawn, kept
local function draw_epoch(run)
  if drawn then
    drawn = drawn + 1
    if drawn <= kept then return whole(drawn) end
    kept = drawn + EPOCHS_AHEAD
  else
    local counter = redis.call('HMGET', meta, 'epoch', 'epoch_run')
    drawn = tonumber(counter[1] or 0) + 1
    if counter[2] ~= run then
      local micros = tonumber(time[1]) * 1000000 + tonumber(time[2])
      drawn = math.max(drawn - 1 + EPOCH_JUMP, micros)
      redis.call('HSETNX', meta, 'birth', whole(micros))
    end
    kept = drawn
  end
  redis.call('HSET', meta, 'epoch', whole(kept), 'epoch_run', run)
  return whole(drawn)
end

local function note(what, worker, instance, epoch, why)
  redis.call('XADD', events, 'MAXLEN', '~', EVENTS_MAX, '*', 'what', what, 'worker', worker, 'instance',
    instance, 'epoch', epoch, 'why', why)
end

local function forget(worker)
  redis.call('HDEL', places, worker)
  redis.call('HDEL', configs, worker)
  redis.call('HDEL', health, worker)
  redis.call('HDEL', avoid, worker)
end

-- Takes a worker from its owner: it waits for a place, or is gone if it was uninstalled.
local function release(worker, place, why)
  if place.remove == '1' then
    forget(worker)
    note('removed', worker, NONE, place.epoch, why)
    return
  end
  place.state, place.owner, place.why, place.since = 'pending', NONE, why, now_ms
  write_place(worker, place)
  redis.call('HDEL', health, worker)
end

local function revoke(worker, place, why)
  place.state, place.why = 'revoking', why
  write_place(worker, place)
  note('revoked', worker, place.owner, place.epoch, why)
end

-- The list of the instance whose keys were given: worker, epoch, state, config, ...
local function list()
  local flat = {}
  for _, worker in ipairs(redis.call('HKEYS', workers)) do
    local place = read_place(worker)
    if place then
      local at = #flat
      flat[at + 1], flat[at + 2], flat[at + 3], flat[at + 4] = worker, place.epoch, place.state, place.config
    end
  end
  return flat
end

-- What readers of document 000's layout find under workers:NAME.
local function describe(name, epoch)
  return '{"instanceName":"' .. name .. '","epoch":' .. epoch .. ',"updatedMillisecond":' .. now_ms .. '}'
end

