-- Throw dead letters, or held tasks, away for good.
-- KEYS 1 dead or held 2 counters   ARGV ids
-- how many were there (a replay finds none)
local bad = wrong_type({[KEYS[1]] = 'stream', [KEYS[2]] = 'hash'})
if bad then return bad end
local there = {}
for _, id in ipairs(ARGV) do
  if #redis.call('XRANGE', KEYS[1], id, id) > 0 then there[#there + 1] = id end
end
if #there == 0 then return 0 end
unlock_at_oom(KEYS[1])
redis.call('HINCRBY', KEYS[2], 'dropped', 0)
local n = 0
for from = 1, #there, 1000 do
  n = n + redis.call('XDEL', KEYS[1], unpack(there, from, math.min(from + 999, #there)))
end
redis.call('HINCRBY', KEYS[2], 'dropped', n)
return n
