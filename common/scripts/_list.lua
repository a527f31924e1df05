-- Put in front of _prelude.lua where the queue is a list: the stream commands that the scripts use,
-- done with plain lists, hashes and sorted sets, so that every rule of the protocol is the same one.
-- The last three ARGV are the queue's name, what its other keys begin with, and the group. All keys
-- below are among KEYS, too, behind those of the script; of :processing that of the caller and of
-- each whose claim record is there. Keys:
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
local LETTERS, LAST_ID, NAMES = PREFIX .. 'letters', PREFIX .. 'last_id', PREFIX .. 'names'
local PROCESSING, ARRIVED = PREFIX .. 'processing:', PREFIX .. 'arrived'
local REF = '\0redisq\0'

local server = redis
local raw = redis.call

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

-- The bounds of a range, as scores.
local function score(id)
  if id == '-' then return '-inf' end
  if id == '+' then return '+inf' end
  local n = number_of(id)
  if not n then error('ERR Invalid stream ID specified as stream command argument') end
  return digits(n)
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

-- As XPENDING says it.
local function row(id, now)
  local token, seen, owner = string.match(raw('HGET', OWNERS, id) or '', '^(%d+) (%d+) (.*)$')
  return token and {id, owner, math.max(0, now - seen), tonumber(token)}
end

-- Those of `ids` from score `from` to `to`, in order.
local function in_range(ids, from, to)
  local numbers, id_of = {}, {}
  from = from == '-inf' and 0 or tonumber(from)
  to = to == '+inf' and math.huge or tonumber(to)
  for _, id in ipairs(ids) do
    local n = number_of(id)
    if n and n >= from and n <= to and not id_of[n] then
      numbers[#numbers + 1] = n
      id_of[n] = id
    end
  end
  table.sort(numbers)
  for i, n in ipairs(numbers) do numbers[i] = id_of[n] end
  return numbers
end

local function length() return raw('LLEN', NAME) + raw('LLEN', ARRIVED) + raw('ZCARD', PENDING) end

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

-- Entries that nobody has, and that nothing refers to: no fetch will ever bring them. Where there are
-- more than `limit` to look at it is left out.
local function n_unreachable(limit)
  if raw('HLEN', TASKS) > limit or raw('LLEN', NAME) > limit then return 0 end
  local left, n = {}, 0
  for _, id in ipairs(raw('HKEYS', TASKS)) do
    if raw('HEXISTS', OWNERS, id) == 0 then left[id] = true end
  end
  for _, list in ipairs({NAME, ARRIVED}) do
    for _, item in ipairs(raw('LRANGE', list, 0, -1)) do
      if string.sub(item, 1, #REF) == REF then left[string.sub(item, #REF + 1)] = nil end
    end
  end
  for _ in pairs(left) do n = n + 1 end
  return n
end

-- At most `max` tasks for `me`: of what has arrived at most `moved`, then what waits.
-- {{id, fields, is new}, ...}
local function fetch(me, max, moved, payload_field)
  local out, seen, now = {}, {}, digits(clock())
  local from = {ARRIVED, NAME}
  local items, n_new = {}, 0
  for k = 1, 2 do
    local left = k == 1 and math.min(moved, max) or max - #out
    items[k] = left > 0 and raw('LRANGE', from[k], -left, -1) or {}
    for i = #items[k], 1, -1 do
      local item = items[k][i]
      local id = referred(item)
      if not id or seen[id] then
        n_new = n_new + 1
        out[#out + 1] = {false, {payload_field, item}, true}
      else
        seen[id] = true
        out[#out + 1] = {id, fields_of(TASKS, id), false}
      end
    end
  end
  if #out == 0 then return out end
  local ids = new_ids(n_new)
  local tasks, owners, pending, mine = {}, {}, {}, {}
  local k = 0
  for i, e in ipairs(out) do
    if e[3] then
      k = k + 1
      e[1] = ids[k]
      tasks[#tasks + 1] = e[1]
      tasks[#tasks + 1] = cmsgpack.pack(e[2])
    end
    owners[2 * i - 1], owners[2 * i] = e[1], '1 ' .. now .. ' ' .. me
    pending[2 * i - 1], pending[2 * i] = digits(number_of(e[1])), e[1]
    mine[i] = e[1]
  end
  raw('LTRIM', PROCESSING, 0, -1) -- permitted, then: or there would be copies
  paged('HMSET', TASKS, tasks)
  paged('LPUSH', PROCESSING .. me, mine)
  paged('ZADD', PENDING, pending)
  paged('HMSET', OWNERS, owners)
  for i = 1, 2 do -- last: cut before, it is there twice, and not lost
    if #items[i] > 0 then raw('LTRIM', from[i], 0, -#items[i] - 1) end
  end
  return out
end

local commands = {}

function commands.TYPE(key)
  local got = raw('TYPE', key)
  got = got.ok or got
  local want, beside
  if key == PREFIX .. 'dead' or key == PREFIX .. 'held' then
    want, beside = 'zset', {[LETTERS] = 'hash', [LAST_ID] = 'string'}
  elseif key == NAME then
    want, beside = 'list', {[TASKS] = 'hash', [OWNERS] = 'hash', [PENDING] = 'zset',
                            [LAST_ID] = 'string'}
  else
    return {ok = got}
  end
  if got ~= want and got ~= 'none' then return {ok = got == 'stream' and 'true stream' or got} end
  for aux, should in pairs(beside) do
    local is = raw('TYPE', aux)
    is = is.ok or is
    if is ~= should and is ~= 'none' then return {ok = want .. ' whose ' .. aux .. ' is a ' .. is} end
  end
  return {ok = got == 'none' and got or 'stream'}
end

function commands.EXISTS(key) return key == NAME and 1 or raw('EXISTS', key) end

function commands.XLEN(key) return key == NAME and length() or raw('ZCARD', key) end

local function add(key, fields)
  for i, f in ipairs(fields) do if type(f) == 'number' then fields[i] = digits(f) end end
  local id = new_ids(1)[1]
  local hash, place = LETTERS, {'ZADD', key, digits(number_of(id)), id}
  if key == NAME then hash, place = TASKS, {'LPUSH', NAME, REF .. id} end
  raw('HSET', hash, id, cmsgpack.pack(fields))
  local placed = server.pcall(unpack(place))
  if type(placed) == 'table' then -- refused: nothing is left of it, and the error is that of
    raw('HDEL', hash, id)
    raw(unpack(place))
  end
  return id
end

function commands.XADD(key, _, ...) return add(key, {...}) end

function commands.XDEL(key, ...)
  local ids, n = {...}, 0
  if key ~= NAME then n = raw('ZREM', key, ...) end
  local deleted = raw('HDEL', key == NAME and TASKS or LETTERS, unpack(ids))
  return key == NAME and deleted or n
end

function commands.XTRIM(key, _, _, max)
  local excess = raw('ZCARD', key) - max
  if excess <= 0 then return 0 end
  local ids = raw('ZRANGE', key, 0, excess - 1)
  paged('ZREM', key, ids)
  paged('HDEL', LETTERS, ids)
  return #ids
end

local function range(key, command, from, to, count)
  local hash = key == NAME and TASKS or LETTERS
  local ids, out = {}, {}
  if from == to then
    score(string.match(from, '^%d+$') and '-' or from) -- an id it must be
    if key == NAME or raw('ZSCORE', key, from) then ids[1] = from end
  elseif key == NAME then
    ids = in_range(raw('HKEYS', TASKS), score(from), score(to))
  else
    ids = raw(command, key, score(from), score(to), 'LIMIT', 0, count or -1)
  end
  for _, id in ipairs(ids) do
    local fields = (not count or #out < tonumber(count)) and fields_of(hash, id)
    if fields then out[#out + 1] = {id, fields} end
  end
  return out
end

function commands.XRANGE(key, from, to, _, count)
  return range(key, 'ZRANGEBYSCORE', from, to, count)
end

-- Of letters only.
function commands.XREVRANGE(key, from, to, _, count)
  return range(key, 'ZREVRANGEBYSCORE', from, to, count)
end

function commands.XPENDING(_, _, from, to, count, owner)
  if not from then return {raw('ZCARD', PENDING)} end
  local ids, out, now = {from}, {}, clock()
  count = tonumber(count)
  if from ~= to then
    local low, high = score(from), score(to)
    ids = owner and in_range(raw('LRANGE', PROCESSING .. owner, 0, -1), low, high) or
          raw('ZRANGEBYSCORE', PENDING, low, high, 'LIMIT', 0, count)
  end
  for i = 1, math.min(#ids, count) do
    local p = row(ids[i], now)
    if p and (not owner or p[2] == owner) then out[#out + 1] = p end
  end
  return out
end

-- XCLAIM key group me 0 id... [JUSTID | TIME 1 JUSTID]
function commands.XCLAIM(_, _, me, _, ...)
  local ids, out = {...}, {}
  local just_id, seen = ids[#ids] == 'JUSTID', digits(clock())
  if just_id then table.remove(ids) end
  if ids[#ids - 1] == 'TIME' then
    seen = table.remove(ids)
    table.remove(ids)
  end
  raw('LREM', PROCESSING, 0, '') -- permitted, then
  for _, id in ipairs(ids) do
    local p = row(id, 0)
    local fields = p and (just_id or fields_of(TASKS, id))
    if fields then
      local token = just_id and p[4] or p[4] + 1
      if p[2] ~= me then
        raw('LPUSH', PROCESSING .. me, id)
        raw('LREM', PROCESSING .. p[2], 1, id)
      end
      raw('HSET', OWNERS, id, digits(token) .. ' ' .. seen .. ' ' .. me) -- this is what counts
      out[#out + 1] = just_id and id or {id, fields}
    end
  end
  return out
end

function commands.XACK(_, _, ...)
  local ids = {}
  raw('LREM', PROCESSING, 0, '') -- all that follows is permitted, then
  raw('ZREM', PENDING, '')
  raw('HDEL', OWNERS, '')
  for _, id in ipairs({...}) do
    local p = row(id, 0)
    if p then
      raw('LREM', PROCESSING .. p[2], 1, id)
      ids[#ids + 1] = id
    end
  end
  paged('ZREM', PENDING, ids)
  paged('HDEL', OWNERS, ids)
  return #ids
end

function commands.XGROUP(what, _, _, name)
  if what == 'DELCONSUMER' then return raw('DEL', PROCESSING .. name) end
end

function commands.XINFO(what)
  if what == 'STREAM' then return {'length', length()} end
  if what == 'CONSUMERS' then return {} end -- none but workers can have anything
  -- The next in turn, where it is known when it was added.
  local id = referred(raw('LINDEX', NAME, -1) or '')
  return {{'name', GROUP, 'consumers', raw('HLEN', NAMES), 'pending', raw('ZCARD', PENDING),
           'last-delivered-id', '0-0', 'next-id', id or ''}}
end

-- In place of the real one from here on.
local redis = {
  call = function(command, ...)
    local f = commands[command]
    if f then return f(...) end
    return raw(command, ...)
  end,
  pcall = function(command, ...)
    if not commands[command] then return server.pcall(command, ...) end
    local ok, answer = pcall(commands[command], ...)
    if ok then return answer end
    return type(answer) == 'table' and answer or {err = answer}
  end,
  error_reply = function(said)
    return server.error_reply((string.gsub(said, ', not a stream$', ', not of a queue in lists')))
  end,
  replicate_commands = server.replicate_commands,
}
