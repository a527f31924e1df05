-- Tasks for free slots: of those that reads have moved aside at most as many as my own has, then from
-- the list itself. With n = 0 what was moved goes back. Only for queues that are lists.
-- KEYS 1 list 2 my claim record 3 crash 4 ckpt
-- ARGV 1 group 2 me 3 nonce 4 n 5 payload field 6 moved: at most so many of those
-- {0} fenced; {1, {{id, token, fields, crash record or '', checkpoint or ''}, ...}}
local list, crash, ckpt = KEYS[1], KEYS[3], KEYS[4]
local me, n = ARGV[2], tonumber(ARGV[4])
if nonce_of(redis.call('GET', KEYS[2])) ~= ARGV[3] then return {0} end
local bad, there = wrong_type({[list] = 'stream', [crash] = 'hash', [ckpt] = 'hash'})
if bad then return bad end
unlock_at_oom(list)
be_a_list()
if n == 0 then
  let_go(me)
  return {1, {}}
end
local out = {}
for i, e in ipairs(fetch(me, math.min(n, 1000), tonumber(ARGV[6]), ARGV[5])) do
  local id = e[1]
  out[i] = {id, 1, e[2], not e[3] and there[crash] and redis.call('HGET', crash, id) or '',
            not e[3] and there[ckpt] and redis.call('HGET', ckpt, id) or ''}
end
return {1, out}
