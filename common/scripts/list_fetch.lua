-- keys only: the stream commands and the prelude would cost more than all of this
-- Tasks for free slots: of those that reads have moved aside at most as many as my own has, then from
-- the list itself. With n = 0 what was moved goes back. Only for queues that are lists.
-- KEYS 1 list 2 my claim record 3 crash 4 ckpt
-- ARGV 1 group 2 me 3 nonce 4 n 5 payload field 6 moved: at most so many of those
-- {0} fenced; {1, {{id, token, fields, crash record or '', checkpoint or ''}, ...}}
local crash, ckpt, had = KEYS[3], KEYS[4], PROCESSING .. ARGV[2]
local max, moved = math.min(tonumber(ARGV[4]), 1000), tonumber(ARGV[6])
if string.match(raw('GET', KEYS[2]) or '', '^%S+') ~= ARGV[3] then return {0} end

-- {id, 1, fields, crash record, checkpoint}, without an id where it is a payload.
local function look(item, seen)
  local id = referred(item)
  if not id or seen[id] then return {false, 1, {ARGV[5], item}, '', ''} end
  seen[id] = true
  return {id, 1, fields_of(TASKS, id), raw('HGET', crash, id) or '', raw('HGET', ckpt, id) or ''}
end

local function fetch()
  local out, new, seen, n = {}, {}, {}, {}
  raw('HDEL', TASKS, '0-0') -- legal at OOM, and what follows it, too
  if max == 0 then let_go() end
  for k, from in ipairs({ARRIVED, NAME}) do
    local left = k == 1 and math.min(moved, max) or max - #out
    local items = left > 0 and raw('LRANGE', from, -left, -1) or {}
    n[k] = #items
    for i = #items, 1, -1 do
      local e = look(items[i], seen)
      out[#out + 1] = e
      if not e[1] then new[#new + 1] = e end
    end
  end
  if #out == 0 then
    be_a_list()
    return out
  end
  raw('LTRIM', had, 0, -1) -- permitted, and of its type, like what follows: or there would be copies
  raw('ZREM', PENDING, '')
  raw('HDEL', OWNERS, '')
  local ids, now = new_ids(#new), digits(clock())
  local tasks, owners, pending, mine = {}, {}, {}, {}
  for i, e in ipairs(new) do
    e[1] = ids[i]
    tasks[2 * i - 1], tasks[2 * i] = e[1], cmsgpack.pack(e[3])
  end
  for i, e in ipairs(out) do
    owners[2 * i - 1], owners[2 * i] = e[1], '1 ' .. now .. ' ' .. ARGV[2]
    pending[2 * i - 1], pending[2 * i] = string.match(e[1], '%d+$'), e[1]
    mine[i] = e[1]
  end
  paged('HMSET', TASKS, tasks)
  paged('LPUSH', had, mine)
  paged('ZADD', PENDING, pending)
  paged('HMSET', OWNERS, owners)
  for k, from in ipairs({ARRIVED, NAME}) do -- last: cut before, it is there twice, and not lost
    if n[k] > 0 then raw('LTRIM', from, 0, -n[k] - 1) end
  end
  return out
end

-- What is wrong where something is of the wrong type: Redis does not say which key it was.
local function culprit()
  for key, want in pairs({[NAME] = 'list', [ARRIVED] = 'list', [had] = 'list', [TASKS] = 'hash',
                          [OWNERS] = 'hash', [PENDING] = 'zset', [LAST_ID] = 'string',
                          [crash] = 'hash', [ckpt] = 'hash'}) do
    local got = raw('TYPE', key)
    got = got.ok or got
    if got ~= 'none' and got ~= want then
      return server.error_reply('WRONGTYPE ' .. key .. ' is a ' .. got .. ', not a ' .. want)
    end
  end
end

local ok, out = pcall(fetch)
if ok then return {1, out} end
local said = type(out) == 'table' and out.err or out
local named = string.find(said, 'WRONGTYPE', 1, true) and culprit()
return named or error(out, 0)
