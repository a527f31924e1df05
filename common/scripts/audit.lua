-- Check the account of a queue at one moment; nothing is written.
-- KEYS 1 stream 2 delayed 3 bodies 4 dead 5 held 6 counters 7 ckpt 8 crash 9 progress
-- ARGV 1 group 2 limit: at most so many entries are looked at for each check, or the check is left
--      out 3 stranded (0|1): done entries leave the stream, so that what was handed out and is there
--      must be pending
-- {name, number, ...}; added is '' before 7.0
local stream, delayed, bodies = KEYS[1], KEYS[2], KEYS[3]
local group, limit = ARGV[1], tonumber(ARGV[2])
local out = {}
local function put(name, value) out[#out + 1] = name; out[#out + 1] = value end
local function map(flat)
  local m = {}
  for i = 1, #flat, 2 do m[flat[i]] = flat[i + 1] end
  return m
end
local function exists(id) return #redis.call('XRANGE', stream, id, id) > 0 end

local info, ours = {}, nil
if redis.call('EXISTS', stream) == 1 then
  info = map(redis.call('XINFO', 'STREAM', stream))
  for _, g in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
    local m = map(g)
    if m['name'] == group then ours = m end
  end
end
put('length', info['length'] or 0)
put('added', info['entries-added'] or '')
put('delayed', redis.call('ZCARD', delayed))
put('dead', redis.call('XLEN', KEYS[4]))
put('held', redis.call('XLEN', KEYS[5]))
local c = redis.call('HMGET', KEYS[6], 'done', 'dropped', 'readded')
put('done', c[1] or 0)
put('dropped', c[2] or 0)
put('readded', c[3] or 0)
put('pending', ours and ours['pending'] or 0)

-- Pending entries whose body was deleted from the stream, and entries that were handed out and are
-- pending for nobody: they would never run.
local ghosts, stranded = 0, 0
if ours then
  local page = redis.call('XPENDING', stream, group, '-', '+', limit)
  for _, p in ipairs(page or {}) do
    if not exists(p[1]) then ghosts = ghosts + 1 end
  end
  if ARGV[3] == '1' and #(page or {}) < limit then
    local there = redis.call('XRANGE', stream, '-', ours['last-delivered-id'], 'COUNT', 2 * limit)
    stranded = math.max(0, #there - (#(page or {}) - ghosts))
  end
end
put('stranded', stranded + n_unreachable(limit))
put('ghosts', ghosts)

local without = 0
for _, id in ipairs(redis.call('ZRANGE', delayed, 0, limit - 1)) do
  if redis.call('HEXISTS', bodies, id) == 0 then without = without + 1 end
end
put('delayed_without_body', without)
-- Fields of a hash that belong to nothing; a larger one than the limit is not looked at.
local function orphans(key, belongs)
  local n = 0
  if redis.call('HLEN', key) > limit then return 0 end
  for _, id in ipairs(redis.call('HKEYS', key)) do
    if not belongs(id) then n = n + 1 end
  end
  return n
end
put('bodies_without_task', orphans(bodies, function(id) return redis.call('ZSCORE', delayed, id) end))
put('checkpoints_without_task', orphans(KEYS[7], exists))
put('progress_without_task', orphans(KEYS[9], exists))
put('records_of_crashes_without_task', orphans(KEYS[8], exists))
return out
