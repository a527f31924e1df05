-- alone: the prelude would cost more than all of this
-- done.lua, for a queue that is a list. That one does not look whose the entries are; here it costs
-- nothing to look: what another has taken meanwhile stays that one's.
-- KEYS 1 list 2 counters 3 tasks 4 owners 5 pending, the last one: what the caller has
-- ARGV 1 group 2 keep entries (always 0) 3... ids, at most 1000, then what all scripts for lists get
-- how many of them were the caller's: those are counted. In a replay, or a late copy, none.
-- At OOM the first write is refused, and with it the rest: settle does it then.
if redis.replicate_commands then redis.replicate_commands() end
local counters, tasks, owners, pending, had = KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[#KEYS]
local me = string.sub(had, #ARGV[#ARGV - 1] + #'processing:' + 1)
redis.call('HINCRBY', counters, 'done', 0) -- all that follows is permitted, and of its type
redis.call('LREM', had, 0, '')
redis.call('ZREM', pending, '')
redis.call('HDEL', owners, '')
redis.call('HDEL', tasks, '')
local ids = {unpack(ARGV, 3, #ARGV - 3)}
local rows, mine = redis.call('HMGET', owners, unpack(ids)), {}
for i, id in ipairs(ids) do
  local token, owner = string.match(rows[i] or '', '^(%d+) %d+ (.*)$')
  if token == '1' and owner == me then
    redis.call('LREM', had, 1, id)
    mine[#mine + 1] = id
  end
end
if #mine > 0 then
  redis.call('ZREM', pending, unpack(mine))
  redis.call('HDEL', owners, unpack(mine))
  redis.call('HINCRBY', counters, 'done', #mine)
  redis.call('HDEL', tasks, unpack(mine))
end
return #mine
