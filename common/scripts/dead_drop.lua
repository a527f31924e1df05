-- Throw dead letters, or held tasks, away for good.
-- KEYS 1 dead or held 2 counters   ARGV ids
-- how many were there (a replay finds none)
local bad = wrong_type({[KEYS[1]] = 'stream', [KEYS[2]] = 'hash'})
if bad then return bad end
unlock_at_oom(KEYS[1])
local n = 0
for from = 1, #ARGV, 1000 do
  n = n + redis.call('XDEL', KEYS[1], unpack(ARGV, from, math.min(from + 999, #ARGV)))
end
if n > 0 then redis.call('HINCRBY', KEYS[2], 'dropped', n) end
return n
