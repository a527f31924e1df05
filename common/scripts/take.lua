-- Take over entries that were released, or whose owner is gone; each only if nothing has changed
-- since it was seen. An entry of our own (a lost reply) may be taken again.
-- KEYS 1 stream 2 crash 3 names 4 my claim record 5 ckpt 6 progress, then per entry: its owner's
--      claim record
-- ARGV 1 group 2 me 3 nonce 4 lease_ms 5 stale allowed (0|1) 6 foreign idle ms 7 n,
--      then per entry: id owner token
-- {0} fenced; {1, {{id, token, fields, crash record, checkpoint}, ...}}
local stream, crash, names, ckpt, progress = KEYS[1], KEYS[2], KEYS[3], KEYS[5], KEYS[6]
local group, me, lease = ARGV[1], ARGV[2], tonumber(ARGV[4])
if nonce_of(redis.call('GET', KEYS[4])) ~= ARGV[3] then return {0} end

local function may_take(p, owner_claim)
  local owner, idle = p[2], p[3]
  if owner == me or idle >= RELEASED_IDLE then return true end
  if ARGV[5] ~= '1' then return false end
  if redis.call('HEXISTS', names, owner) == 0 then return idle >= tonumber(ARGV[6]) end
  return idle >= 3 * lease or (idle >= lease and redis.call('EXISTS', owner_claim) == 0)
end

local bad = wrong_type({[crash] = 'hash', [names] = 'hash', [ckpt] = 'hash', [progress] = 'hash'})
if bad then return bad end
unlock_at_oom(stream)
redis.call('XACK', stream, group, '0-0')
redis.call('HDEL', crash, '')
-- All is charged before anything is taken: an error then loses no charge and no answer.
local list = {}
for i = 1, tonumber(ARGV[7]) do
  local id, owner, token = ARGV[5 + 3 * i], ARGV[6 + 3 * i], ARGV[7 + 3 * i]
  local p = redis.call('XPENDING', stream, group, id, id, 1)
  p = p and p[1]
  if p and p[2] == owner and p[4] == tonumber(token) and may_take(p, KEYS[6 + i]) then
    if p[3] < RELEASED_IDLE and owner ~= me then charge_silent(crash, id, token) end
    list[#list + 1] = p
  end
end

local out, seen = {}, {}
for _, p in ipairs(list) do
  local id = p[1]
  local e = not seen[id] and redis.call('XCLAIM', stream, group, me, 0, id)
  e = e and e[1]
  if e and e[2] then
    out[#out + 1] = {id, p[4] + 1, e[2], redis.call('HGET', crash, id) or '',
                     redis.call('HGET', ckpt, id) or ''}
    redis.call('HDEL', progress, id) -- it was that of the run before
  elseif not seen[id] then
    redis.call('XACK', stream, group, id) -- a ghost: the entry itself was deleted
    forget({id}, {crash, ckpt, progress})
  end
  seen[id] = true
end
return {1, out}
