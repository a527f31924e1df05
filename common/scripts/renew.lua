-- Keep the name and the entries that run; tell what was lost and what else is pending here.
-- KEYS 1 claim record 2 stream 3 crash 4 names 5 ckpt 6 progress
-- ARGV 1 group 2 me 3 nonce 4 record 5 ttl_ms 6 window 7 n, then per entry: id token
-- {0} fenced: the name is another's now
-- {1, redis_ms, {per entry: 1 kept, 0 gone, -1 another's, 2 deleted}, {id, idle, count, ...}}
local stream, group, me = KEYS[2], ARGV[1], ARGV[2]
local held = redis.call('GET', KEYS[1])
if held and nonce_of(held) ~= ARGV[3] then return {0} end

local pending, list = {}, redis.call('XPENDING', stream, group, '-', '+', ARGV[6], me)
for _, p in ipairs(list or {}) do pending[p[1]] = p end

unlock_at_oom(stream)
-- Where SET is refused, that must not take the renewal of the entries with it. What the record says
-- about links is never taken back: that would be a late copy of this script.
if held then redis.call('PEXPIRE', KEYS[1], ARGV[5]) end
if held ~= ARGV[4] and n_lost(held) <= n_lost(ARGV[4]) then
  redis.pcall('SET', KEYS[1], ARGV[4], 'PX', ARGV[5])
  redis.pcall('HSET', KEYS[4], me, ARGV[4])
end

local answer, keep, lost, n = {}, {}, {}, tonumber(ARGV[7])
for i = 1, n do
  local id, token = ARGV[6 + 2 * i], ARGV[7 + 2 * i]
  local p = pending[id]
  if p and p[4] == tonumber(token) then
    answer[i] = 1
    keep[#keep + 1] = id
  else
    answer[i] = p and -1 or mine(stream, group, me, id, token)
    if answer[i] == 1 then keep[#keep + 1] = id end -- beyond the window
    if answer[i] == -1 then lost[#lost + 1] = i end
  end
  pending[id] = nil
end
local left = {KEYS[3], KEYS[5], KEYS[6]}
keep_or_drop(stream, group, me, keep, {}, left)
for i = 1, n do
  local id = ARGV[6 + 2 * i]
  if answer[i] >= 0 and #redis.call('XRANGE', stream, id, id) == 0 then
    if answer[i] == 0 then forget({id}, left) else answer[i] = 2 end
  end
end

-- Somebody took it because we looked dead, and charged a crash: we live, take that back. What is
-- wrong with the key of the crashes is for others to say: here it must not cost the leases.
for _, i in ipairs(lost) do
  local id, token = ARGV[6 + 2 * i], ARGV[7 + 2 * i]
  local v = redis.pcall('HGET', KEYS[3], id)
  local count, charged, cause = string.match(type(v) == 'string' and v or '', '^(%d+):(%d+):(.*)$')
  if count and charged == token and (cause == 'stale' or cause == 'alone host fell silent') then
    redis.pcall('HSET', KEYS[3], id, text(count - 1) .. ':' .. charged .. ':repaid')
  end
end

local extras = {}
for _, p in ipairs(list or {}) do
  if pending[p[1]] then
    extras[#extras + 1] = p[1]
    extras[#extras + 1] = p[3]
    extras[#extras + 1] = p[4]
  end
end
return {1, text(now_ms()), answer, extras}
