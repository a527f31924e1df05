-- Check the account of a queue at one moment; nothing is written.
-- KEYS 1 stream 2 delayed 3 bodies 4 dead 5 held 6 counters 7 ckpt 8 crash
-- ARGV 1 group 2 limit: at most so many entries are looked at for each check
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
local ghosts, handed_out = 0, 0
if ours then
  local page = redis.call('XPENDING', stream, group, '-', '+', limit)
  for _, p in ipairs(page or {}) do
    if not exists(p[1]) then ghosts = ghosts + 1 end
  end
  handed_out = #redis.call('XRANGE', stream, '-', ours['last-delivered-id'], 'COUNT', limit)
  put('stranded', math.max(0, handed_out - (#(page or {}) - ghosts)))
else
  put('stranded', 0)
end
put('ghosts', ghosts)

local without, orphans = 0, 0
for _, id in ipairs(redis.call('ZRANGE', delayed, 0, limit - 1)) do
  if redis.call('HEXISTS', bodies, id) == 0 then without = without + 1 end
end
put('delayed_without_body', without)
local n = 0
for _, id in ipairs(redis.call('HKEYS', bodies)) do
  n = n + 1
  if n <= limit and not redis.call('ZSCORE', delayed, id) then orphans = orphans + 1 end
end
put('bodies_without_task', orphans)
for name, key in pairs({records_of_crashes = KEYS[8], checkpoints = KEYS[7]}) do
  local left = 0
  n = 0
  for _, id in ipairs(redis.call('HKEYS', key)) do
    n = n + 1
    if n <= limit and not exists(id) then left = left + 1 end
  end
  put(name .. '_without_task', left)
end
put('looked_at_all', (ours and ours['pending'] or 0) < limit and 1 or 0)
return out
