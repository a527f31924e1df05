-- Put in front of every script. What all of them keep to, so that a cut, an error or a replay
-- leaves a duplicate at worst and never a loss:
--   * effects are replicated, so that Redis TIME may be used;
--   * the type of every key that will be written is checked before the first write;
--   * the first write is one that is legal at OOM and changes nothing: it unlocks the rest;
--   * what a task moves to is written first, XACK and XDEL come last;
--   * where an effect cannot be written twice (XADD, a counter), the commands that follow it are
--     tried before it, as no-ops: one that is not permitted then ends the script while nothing is
--     changed, instead of leaving one duplicate more with every replay.
if redis.replicate_commands then redis.replicate_commands() end

local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- tostring() would give 1.79e+12.
local function text(n) return string.format('%.0f', n) end

-- types: key -> expected type. An error message; or nil, and the keys that there are.
local function wrong_type(types)
  local there = {}
  for key, want in pairs(types) do
    local got = redis.call('TYPE', key)
    got = got.ok or got
    there[key] = got ~= 'none'
    if got ~= 'none' and got ~= want then
      return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. got .. ', not a ' .. want)
    end
  end
  return nil, there
end

local function unlock_at_oom(stream) redis.call('XDEL', stream, '0-0') end

-- The nonce in a claim record: its first word.
local function nonce_of(claim) return claim and string.match(claim, '^%S+') end

-- How many links its owner had lost when it was written: its ninth word.
local function n_lost(claim)
  return tonumber(string.match(claim or '', '^' .. string.rep('%S+ ', 8) .. '(%d+)')) or 0
end

-- Is entry `id` pending for `me` under this token? 1 yes, 0 not pending at all, -1 another's.
local function mine(stream, group, me, id, token)
  local p = redis.call('XPENDING', stream, group, id, id, 1)
  p = p and p[1]
  if not p then return 0 end
  if p[2] ~= me or p[4] ~= tonumber(token) then return -1 end
  return 1
end

-- A command with many ids, in pages: unpack() has a limit.
local function call_paged(head, ids)
  for from = 1, #ids, 1000 do
    local a = {}
    for i = 1, #head do a[i] = head[i] end
    for i = from, math.min(from + 999, #ids) do a[#a + 1] = ids[i] end
    redis.call(unpack(a))
  end
end

-- What these entries have left in these keys goes. Where it cannot, it lies there and harms nobody.
local function forget(ids, keys)
  for _, key in ipairs(keys) do
    for from = 1, #ids, 1000 do
      redis.pcall('HDEL', key, unpack(ids, from, math.min(from + 999, #ids)))
    end
  end
end

-- XCLAIM for `owner` that leaves the tokens. From 7.0 on it drops what somebody has deleted from the
-- stream from the pending list: nobody will look for what such entries have left, so that is
-- forgotten. Those that were dropped.
local function keep_or_drop(stream, group, owner, ids, options, keys)
  local dropped = {}
  for from = 1, #ids, 1000 do
    local a, kept = {'XCLAIM', stream, group, owner, 0}, {}
    for i = from, math.min(from + 999, #ids) do a[#a + 1] = ids[i] end
    for i = 1, #options do a[#a + 1] = options[i] end
    a[#a + 1] = 'JUSTID'
    for _, id in ipairs(redis.call(unpack(a))) do kept[id] = true end
    for i = from, math.min(from + 999, #ids) do
      if not kept[ids[i]] then dropped[#dropped + 1] = ids[i] end
    end
  end
  forget(dropped, keys)
  return dropped
end

-- An idle time no living entry has: released entries were last seen in 1970.
local RELEASED_IDLE = 1000000000000

-- The owner of an entry fell silent: a suspected crash, charged once per token, repaid by a survivor.
local function charge_silent(crash, id, token)
  local v = redis.call('HGET', crash, id)
  local count, charged, cause = string.match(v or '', '^(%d+):(%d+):(.*)$')
  if charged == token then return end
  -- A suspect runs alone: if its owner fell silent with it, nobody else was there.
  local alone = cause and (string.match(cause, '^company ') or string.match(cause, '^alone ') or
                           (cause == 'stale' and tonumber(count) >= 2))
  redis.call('HSET', crash, id, text((count or 0) + 1) .. ':' .. token ..
                                (alone and ':alone host fell silent' or ':stale'))
end

-- XTRIM to this length does nothing.
local MAX_INT = '9223372036854775807'
