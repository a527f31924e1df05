-- Keep what running tasks say about themselves: checkpoints, for the attempt that follows, and
-- progress, for people. The newest of a kind takes the place of the one before.
-- KEYS 1 stream 2 ckpt 3 progress 4 my claim record
-- ARGV 1 group 2 me 3 links lost 4 n, then per note: kind (C checkpoint, P progress) id token value
-- per note: 1 kept, 0 gone, -1 another's, or let go of, or of a link that was lost since: then it is
-- not for me to say any more, -2 longer than its kind may be
local stream, group, me = KEYS[1], ARGV[1], ARGV[2]
local bad = wrong_type({[KEYS[2]] = 'hash', [KEYS[3]] = 'hash'})
if bad then return bad end
-- At OOM, too: one value per running task is bounded, and what was paid for is not bought again.
unlock_at_oom(stream)
-- What was on its way when its link was lost was said again over another, and maybe something newer.
local late = n_lost(redis.call('GET', KEYS[4])) > tonumber(ARGV[3])
local MAX = {C = 65536, P = 4096}
local out = {}
for i = 1, tonumber(ARGV[4]) do
  local at = 1 + 4 * i
  local kind, id, token, value = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local p = redis.call('XPENDING', stream, group, id, id, 1)
  p = p and p[1]
  if not p then
    out[i] = 0
  elseif late or p[2] ~= me or p[4] ~= tonumber(token) or p[3] >= RELEASED_IDLE then
    out[i] = -1
  elseif #value > MAX[kind] then
    out[i] = -2
  else
    out[i] = 1
    redis.call('HSET', kind == 'C' and KEYS[2] or KEYS[3], id, value)
  end
end
return out
