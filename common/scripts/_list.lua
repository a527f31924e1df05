-- Put behind _list_keys.lua and in front of _prelude.lua: the stream commands that the scripts use,
-- done with plain lists, hashes and sorted sets, so that every rule of the protocol is the same one.

-- The bounds of a range, as scores.
local function score(id)
  if id == '-' then return '-inf' end
  if id == '+' then return '+inf' end
  local n = number_of(id)
  if not n then error('ERR Invalid stream ID specified as stream command argument') end
  return digits(n)
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

-- Those that have something, as far as a thousand tasks tell.
local function consumers()
  local n, out = {}, {}
  for _, id in ipairs(raw('ZRANGE', PENDING, 0, 999)) do
    local p = row(id, 0)
    if p then n[p[2]] = (n[p[2]] or 0) + 1 end
  end
  for who, count in pairs(n) do out[#out + 1] = {'name', who, 'pending', count} end
  return out
end

function commands.XINFO(what)
  if what == 'STREAM' then return {'length', length()} end
  if what == 'CONSUMERS' then return consumers() end
  -- The next in turn, where it is known when it was added.
  local id = referred(raw('LINDEX', NAME, -1) or '')
  return {{'name', GROUP, 'consumers', raw('HLEN', PREFIX .. 'names'), 'pending', raw('ZCARD', PENDING),
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
