-- Put in front of every script where the queue is a list: what its keys are, and what is done with
-- them. The last three ARGV are the queue's name, what its other keys begin with, and the group. All
-- keys below are among KEYS, too, behind those of the script; of :processing that of the caller and
-- of each whose claim record is there. Keys:
--   NAME          list    the work: what producers LPUSH, and references to entries of ours (REF
--                         and the id; one only if the entry exists and nobody has it)
--   :arrived      list    moved there by BLMOVE or BRPOPLPUSH of any worker, nobody's task yet
--   :processing:<c> list  ids of the entries that c has
--   :owners       hash    id -> "token last-sign-of-life-ms owner", of all that somebody has
--   :pending      zset    the same ids by their number
--   :tasks        hash    id -> fields, MessagePack
--   :dead, :held  zset    ids of letters by their number; :letters hash id -> fields, MessagePack
--   :last_id      string  the last id given out; ids are ms-number, and both parts only grow
local NAME, PREFIX, GROUP = ARGV[#ARGV - 2], ARGV[#ARGV - 1], ARGV[#ARGV]
for _ = 1, 3 do table.remove(ARGV) end
local TASKS, OWNERS, PENDING = PREFIX .. 'tasks', PREFIX .. 'owners', PREFIX .. 'pending'
local LETTERS, LAST_ID = PREFIX .. 'letters', PREFIX .. 'last_id'
local PROCESSING, ARRIVED = PREFIX .. 'processing:', PREFIX .. 'arrived'
local REF = '\0redisq\0'

local server = redis
local raw = redis.call
if redis.replicate_commands then redis.replicate_commands() end

local function clock()
  local t = raw('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function digits(n) return string.format('%.0f', n) end

local function number_of(id) return tonumber(string.match(id, '^%d+%-(%d+)$')) end

-- The two numbers of an id; none that Lua would round.
local function parts(id)
  local ms, n = string.match(id, '^(%d+)%-(%d+)$')
  if ms and #ms < 16 and #n < 16 then return tonumber(ms), tonumber(n) end
end

-- Of the last id. A new queue has none; or somebody has deleted or overwritten that key: what there
-- is stays behind all that is to come.
local function last_id()
  local ms, n = parts(raw('GET', LAST_ID) or '')
  if ms then return ms, n end
  ms, n = 0, 0
  for _, hash in ipairs({TASKS, LETTERS, PREFIX .. 'bodies'}) do
    for _, id in ipairs(raw('HKEYS', hash)) do
      local a, b = parts(id)
      if a then ms, n = math.max(ms, a), math.max(n, b) end
    end
  end
  return ms, n
end

-- Whoever asks about a queue that was never used sees by this key what it is.
local function be_a_list()
  if raw('EXISTS', LAST_ID) == 0 then
    local ms, n = last_id()
    raw('SET', LAST_ID, digits(ms) .. '-' .. digits(n))
  end
end

-- `n` new ids, in order. Refused at OOM, before anything else is written.
local function new_ids(n)
  local ms, last = last_id()
  ms = digits(math.max(clock(), ms))
  local ids = {}
  for i = 1, n do ids[i] = ms .. '-' .. digits(last + i) end
  if n > 0 then raw('SET', LAST_ID, ids[n]) end
  return ids
end

-- None, where what is there is not of ours: no array of texts, in pairs.
local function fields_of(hash, id)
  local packed = raw('HGET', hash, id)
  if not packed then return nil end
  local ok, fields = pcall(cmsgpack.unpack, packed)
  if not ok or type(fields) ~= 'table' or #fields % 2 == 1 then return {} end
  for i = 1, #fields do
    if type(fields[i]) ~= 'string' then return {} end
  end
  return #fields > 0 and fields or {} -- a map has no length, but names
end

local function paged(command, key, ids)
  for from = 1, #ids, 1000 do raw(command, key, unpack(ids, from, math.min(from + 999, #ids))) end
end

-- The id that an item of the list refers to; nil: it is a payload, whatever it begins with.
local function referred(item)
  local id = #item < 64 and string.sub(item, 1, #REF) == REF and string.sub(item, #REF + 1)
  if id and raw('HEXISTS', TASKS, id) == 1 and raw('HEXISTS', OWNERS, id) == 0 then return id end
end

-- What has arrived goes back to where it came from, in order, which wakes whoever waits: it is
-- nobody's yet. Whose move it was nobody knows, and need not: that one looks in vain, once.
local function let_go()
  local items = raw('LRANGE', ARRIVED, 0, -1)
  if #items == 0 then return end
  raw('HDEL', TASKS, '0-0') -- legal at OOM, and what follows it, too
  paged('RPUSH', NAME, items)
  raw('DEL', ARRIVED)
end
