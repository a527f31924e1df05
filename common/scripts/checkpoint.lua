-- Keep what running tasks say about themselves: checkpoints, for the attempt that follows, and
-- progress, for people. The newest of a kind takes the place of the one before.
-- KEYS 1 stream 2 ckpt 3 progress
-- ARGV 1 group 2 me 3 n, then per note: kind (C checkpoint, P progress) id token value
-- per note: 1 kept, 0 gone, -1 another's, or let go of: then it is not for me to say any more,
-- -2 longer than its kind may be
local stream, group, me = KEYS[1], ARGV[1], ARGV[2]
local bad = wrong_type({[KEYS[2]] = 'hash', [KEYS[3]] = 'hash'})
if bad then return bad end
-- At OOM, too: one value per running task is bounded, and what was paid for is not bought again.
unlock_at_oom(stream)
local MAX = {C = 65536, P = 4096}
local out = {}
for i = 1, tonumber(ARGV[3]) do
  local kind, id, token, value = ARGV[4 * i], ARGV[4 * i + 1], ARGV[4 * i + 2], ARGV[4 * i + 3]
  local p = redis.call('XPENDING', stream, group, id, id, 1)
  p = p and p[1]
  if not p then
    out[i] = 0
  elseif p[2] ~= me or p[4] ~= tonumber(token) or p[3] >= RELEASED_IDLE then
    out[i] = -1
  elseif #value > MAX[kind] then
    out[i] = -2
  else
    out[i] = 1
    redis.call('HSET', kind == 'C' and KEYS[2] or KEYS[3], id, value)
  end
end
return out
