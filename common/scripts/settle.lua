-- What becomes of tasks that ran, a batch at a time. Only their owner under their token may say so.
-- KEYS 1 stream 2 delayed 3 bodies 4 dead 5 held 6 counters 7 ckpt 8 crash 9 progress,
--      then per W: result and failed of that task
-- ARGV 1 group 2 me 3 keep entries (0|1: on_done = ack) 4 dead_max 5 n,
--      then per task: op id token n_args args...
--   D                                        done
--   R delay_ms attempt snoozes               again later, as this attempt
--   K delay_ms cap_ms jitter_% max follow cause, field value...
--                                            crashed: charge it, then follow = retry|dead|hold
--   X field value...                         dead letter    H field value...   held
--   S cause                                  crashed, but maybe of another that ran beside it:
--                                            charge it and release
--   L                                        release: anyone may take it at once, nothing charged
-- in front of a task's op, and not counted in n:
--   C checkpoint                             the newest, where ckpt may not have it yet
--   W ttl_ms result                          somebody wants to know its end: the result is for D;
--                                            X, H and K tell their first two values
-- per task: 1 applied, 0 gone, -1 another's, 2 its entry had been deleted by somebody (D does not
-- look, and says 1; L and S only where Redis drops such entries, from 7.0 on); a second mention in
-- one batch is 0
local stream, delayed, bodies, dead, held = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local counters, ckpt, crash, progress = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local group, me, keep_entries = ARGV[1], ARGV[2], ARGV[3] == '1'
local bad, there = wrong_type({
  [delayed] = 'zset', [bodies] = 'hash', [dead] = 'stream', [held] = 'stream', [counters] = 'hash',
  [ckpt] = 'hash', [crash] = 'hash', [progress] = 'hash'})
if bad then return bad end
unlock_at_oom(stream)
redis.call('XACK', stream, group, '0-0')
redis.call('HDEL', ckpt, '')

local now = now_ms()
local count, finished = {}, {}
local function add(counter, n) count[counter] = (count[counter] or 0) + n end

-- The end of every task whose destination is written.
local function finish()
  for name, n in pairs(count) do
    if n > 0 then redis.call('HINCRBY', counters, name, n) end
  end
  if #finished > 0 then
    for _, key in ipairs({ckpt, crash, progress}) do -- mostly there are none
      if there[key] then call_paged({'HDEL', key}, finished) end
    end
    call_paged({'XACK', stream, group}, finished)
    if not keep_entries then call_paged({'XDEL', stream}, finished) end
  end
  count, finished = {}, {}
end

-- Before an op or a command that was not used yet, and might not be permitted: what came before it
-- in the batch is brought to its end.
local used = {}
local function first_use(what)
  if used[what] then return false end
  finish()
  used[what] = true
  return true
end

-- Fields of an entry as {user fields in order}, {reserved name -> value}.
local RESERVED = {['redisq.id'] = 1, ['redisq.attempt'] = 1, ['redisq.deliveries'] = 1,
                  ['redisq.snoozes'] = 1, ['redisq.enqueued_at'] = 1}
local function split(fields)
  local user, own = {}, {}
  for i = 1, #fields, 2 do
    if RESERVED[fields[i]] then
      own[fields[i]] = fields[i + 1]
    else
      user[#user + 1] = fields[i]
      user[#user + 1] = fields[i + 1]
    end
  end
  return user, own
end

-- A producer may have written anything there.
local function deliveries(own, token)
  local before = own['redisq.deliveries'] or ''
  return text((#before <= 15 and string.match(before, '^%d+$') or 0) + token)
end

local function enqueued_at(id, own) return own['redisq.enqueued_at'] or string.match(id, '^%d+') end

-- The token in a crash record belongs to the entry that is left behind: the next one starts anew.
-- A task that crashed in company and lived to be settled was not the one to blame.
local function carried(crashes)
  if string.match(crashes or '', '^%d+:%d+:company ') or
     string.match(crashes or '', '^%d+:%d+:beside ') then return '' end
  return (string.gsub(crashes or '', '^(%d+):%d+:', '%1:0:'))
end

local said, wanted, n_wanted = {}, {}, 0
local function checkpoint(id) return said[id] or redis.call('HGET', ckpt, id) or '' end

-- What somebody waits for; k: 0 result, 1 failed.
local function tell(id, k, value)
  local w = wanted[id]
  if not w then return end
  first_use('SET')
  redis.call('SET', KEYS[w.key + k], value, 'PX', w.ttl)
end

local function to_delayed(id, token, fields, delay, attempt, snoozes, crashes)
  local user, own = split(fields)
  local body = {user, own['redisq.id'] or id, attempt,
                deliveries(own, token), snoozes,
                enqueued_at(id, own), checkpoint(id), carried(crashes)}
  if first_use('ZADD') then redis.call('HINCRBY', counters, 'retried', 0) end
  redis.call('HSET', bodies, id, cmsgpack.pack(body))
  redis.call('ZADD', delayed, text(now + delay), id)
  add('retried', 1)
end

local function to_letter(key, id, token, fields, from, to)
  local user, own = split(fields)
  local a = {'XADD', key, '*'}
  if #user <= 6000 then
    for i = 1, #user do a[#a + 1] = user[i] end
  else
    a[#a + 1] = 'redisq.fields_msgpack' -- more than one command can carry
    a[#a + 1] = cmsgpack.pack(user)
  end
  local function put(k, v) a[#a + 1] = k; a[#a + 1] = v end
  put('redisq.id', own['redisq.id'] or id)
  put('redisq.attempt', own['redisq.attempt'] or '1')
  put('redisq.deliveries', deliveries(own, token))
  put('redisq.enqueued_at', enqueued_at(id, own))
  for i = from, to do a[#a + 1] = ARGV[i] end
  local left = checkpoint(id)
  if left ~= '' then put('redisq.checkpoint', left) end
  put('redisq.died_at', text(now))
  local place = key == dead and 'dead ' or 'held '
  local why = ' ' .. (ARGV[from + 1] or '') .. ' ' .. (ARGV[from + 3] or '')
  if first_use('XADD') then redis.call('HINCRBY', counters, 'died', 0) end
  if key == dead and first_use('XTRIM') then redis.call('XTRIM', dead, 'MAXLEN', '=', MAX_INT) end
  tell(id, 1, place .. '-' .. why) -- tried first, for what follows is not repeated
  local letter = redis.call(unpack(a))
  tell(id, 1, place .. letter .. why)
  if key == dead then
    add('died', 1)
    add('dropped', redis.call('XTRIM', dead, 'MAXLEN', '=', ARGV[4]))
  end
end

-- How many crashes there are with this one; charged once per token.
local function count_crashes(id, token)
  local n, charged = string.match(redis.call('HGET', crash, id) or '', '^(%d+):(%d+):')
  return tonumber(n or 0) + (charged == text(token) and 0 or 1)
end

local function crashed(id, token, fields, p)
  local delay, cap, jitter = tonumber(ARGV[p]), tonumber(ARGV[p + 1]), tonumber(ARGV[p + 2])
  local max, follow, cause = tonumber(ARGV[p + 3]), ARGV[p + 4], ARGV[p + 5]
  local before = count_crashes(id, token)
  if follow == 'retry' and before >= max then follow = 'dead' end
  if follow ~= 'retry' then return follow end
  for _ = 2, before do if delay < cap then delay = math.min(cap, delay * 2) end end
  local _, own = split(fields)
  to_delayed(id, token, fields, delay + delay * jitter / 100, own['redisq.attempt'] or '1',
             own['redisq.snoozes'] or '0', text(before) .. ':' .. text(token) .. ':' .. cause)
end

-- Ours, and not settled before: the answer. Its arguments are those from `from` to `to`.
local function settle(op, id, token, from, to)
  if op == 'D' then
    tell(id, 0, wanted[id] and wanted[id].result)
    add('done', 1)
    finished[#finished + 1] = id
    return 1
  end
  first_use(op)
  if op == 'S' then
    redis.call('HSET', crash, id, text(count_crashes(id, token)) .. ':' .. text(token) .. ':' ..
                                  ARGV[from])
  end
  if op == 'L' or op == 'S' then
    -- One that cannot be written does not keep the task from the others.
    if said[id] then redis.pcall('HSET', ckpt, id, said[id]) end
    return #keep_or_drop(stream, group, me, {id}, {'TIME', '1'}, {ckpt, crash, progress}) > 0 and 2 or 1
  end
  local e = redis.call('XRANGE', stream, id, id)[1]
  if not e then
    finished[#finished + 1] = id
    return 2
  end
  if op == 'R' then
    to_delayed(id, token, e[2], tonumber(ARGV[from]), ARGV[from + 1], ARGV[from + 2],
               redis.call('HGET', crash, id))
  elseif op == 'X' then
    to_letter(dead, id, token, e[2], from, to)
  elseif op == 'H' then
    to_letter(held, id, token, e[2], from, to)
  elseif op == 'K' then
    local follow = crashed(id, token, e[2], from)
    if follow then
      to_letter(follow == 'hold' and held or dead, id, token, e[2], from + 6, to)
    end
  end
  finished[#finished + 1] = id
  return 1
end

-- Is entry id `a` earlier than `b`? They are numbers in two parts; the longer number is the larger.
local function earlier(a, b)
  local i, j = string.find(a, '-', 1, true) or 0, string.find(b, '-', 1, true) or 0
  if i ~= j then return i < j end
  local x, y = string.sub(a, 1, i), string.sub(b, 1, j)
  if x ~= y then return x < y end
  if #a ~= #b then return #a < #b end
  return a < b
end

-- {id -> token} of what is pending for me from the first to the last entry of a batch: one look
-- instead of one for each. It sees at most twice as many as there are, whatever lies between them.
local function pending_in_batch(n)
  local token_of, first, last, p, k = {}, ARGV[7], ARGV[7], 6, 0
  if n < 2 then return token_of end
  while k < n do
    local op, id = ARGV[p], ARGV[p + 1]
    if earlier(id, first) then first = id elseif earlier(last, id) then last = id end
    if op ~= 'C' and op ~= 'W' then k = k + 1 end
    p = p + 4 + ARGV[p + 3]
  end
  local list = redis.call('XPENDING', stream, group, first, last, 2 * n, me)
  for _, e in ipairs(list or {}) do token_of[e[1]] = e[4] end
  return token_of
end

local out, seen, p, k, n_tasks = {}, {}, 6, 0, tonumber(ARGV[5])
local token_of = pending_in_batch(n_tasks)
while k < n_tasks do
  local op, id, token, n = ARGV[p], ARGV[p + 1], tonumber(ARGV[p + 2]), tonumber(ARGV[p + 3])
  local from = p + 4
  p = from + n
  if op == 'C' then
    said[id] = ARGV[from]
  elseif op == 'W' then
    wanted[id] = {key = 10 + 2 * n_wanted, ttl = ARGV[from], result = ARGV[from + 1]}
    n_wanted = n_wanted + 1
  else
    k = k + 1
    if seen[id] then
      out[k] = 0
    else
      out[k] = token_of[id] == token and 1 or mine(stream, group, me, id, token)
    end
    if out[k] == 1 then
      seen[id] = true
      out[k] = settle(op, id, token, from, p - 1)
    end
  end
end
finish()
return out
