-- Counts the keys of a node without those of our own.
-- ARGV[1] prefix  of our own names
-- ARGV[2] slots   the tags of the node's slots, each with a space behind it
-- ARGV[3..]       further names of our own that may be there
-- Returns how many
local prefix, slots = ARGV[1], ARGV[2]
local keys = redis.call('DBSIZE')
for slot in string.gmatch(slots, '%S+') do
  -- A tag in this list has a meta, and one in the index has a list of dirty keys.
  for _, list in ipairs({':used', ':index'}) do
    local tags = redis.call('ZCARD', prefix .. '{' .. slot .. '}' .. list)
    if tags > 0 then keys = keys - tags - 1 end
  end
end
for at = 3, #ARGV do
  keys = keys - redis.call('EXISTS', ARGV[at])
end
return keys
