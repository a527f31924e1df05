-- Take a consumer name for one incarnation of a worker. What a former one of this very process left
-- pending under it is let go of, and charged as if its owner had fallen silent: it has ended for
-- sure, as there can be but one process of this pid, in this pid namespace, since this boot.
-- KEYS 1 claim record 2 names 3 stream 4 crash 5 ckpt 6 progress
-- ARGV 1 group 2 name 3 nonce 4 record 5 ttl_ms
-- {1, n} ours (a replay too), n entries of a former life may be taken now; {0, holder} another holds
-- it; {-1, n} the name still has pending entries
local name_key, names, stream, crash = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local group, name, nonce, record = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- What a record says of its process, or nil where it does not say enough.
local function process(of)
  local boot, pid, pid_ns =
    string.match(of or '', '^%S+ %S+ (%S+) (%d+) %S+ %S+ %S+ (%S+)')
  if pid and boot ~= '-' and pid_ns ~= '-' then return boot .. ' ' .. pid .. ' ' .. pid_ns end
end

local bad = wrong_type({[names] = 'hash'})
if bad then return bad end
local held = redis.call('GET', name_key)
local replay = nonce_of(held) == nonce
local former = process(held or redis.call('HGET', names, name))
-- Where nothing can be charged, nothing is let go of.
local ended = former and former == process(record) and not wrong_type({[crash] = 'hash'})
if held and not replay and not ended then return {0, held} end

local function pending(from, count)
  return redis.call('XPENDING', stream, group, from, '+', count, name) or {}
end

if not replay and not ended and #pending('-', 1) > 0 then return {-1, 1} end
local ids, to_charge, from = {}, {}, not replay and ended and '-'
while from do
  local page = pending(from, 1000)
  for _, p in ipairs(page) do
    if p[1] ~= from then
      ids[#ids + 1] = p[1]
      if p[3] < RELEASED_IDLE then to_charge[#to_charge + 1] = p end
    end
  end
  from = page[1000] and page[1000][1]
end
-- Something of it was let go of: maybe by an order about a life before that one, and its own order is
-- still to come, and to charge it. Anyone may take it now, anyway.
if #to_charge < #ids then return held and {0, held} or {-1, #ids} end

-- A full Redis is drained by workers: they must be able to start.
unlock_at_oom(stream)
for _, p in ipairs(to_charge) do charge_silent(crash, p[1], text(p[4])) end
keep_or_drop(stream, group, name, ids, {'TIME', '1'}, {crash, KEYS[5], KEYS[6]})
redis.call('HSET', names, name, record)
redis.call('SET', name_key, record, 'PX', ARGV[5])
return {1, #ids}
