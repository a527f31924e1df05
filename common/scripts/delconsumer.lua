-- Remove a consumer that has nothing pending, with its claim record and its name.
-- KEYS 1 stream 2 claim record 3 names   ARGV 1 group 2 name 3 nonce ('' = only if unclaimed)
-- 1 removed, 0 it still has pending entries, -1 somebody else's
local held = redis.call('GET', KEYS[2])
local nonce = nonce_of(held)
if held and (ARGV[3] == '' or (nonce ~= ARGV[3] and nonce ~= 'dead:' .. ARGV[3])) then return -1 end
local bad = wrong_type({[KEYS[3]] = 'hash'})
if bad then return bad end
let_go()
local p = redis.pcall('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2])
if p and p.err then
  if not string.find(p.err, 'NOGROUP', 1, true) then return redis.error_reply(p.err) end
elseif p and #p > 0 then
  return 0
else
  unlock_at_oom(KEYS[1]) -- XGROUP is refused at OOM before 7.0
  redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
end
redis.call('DEL', KEYS[2])
redis.call('HDEL', KEYS[3], ARGV[2])
return 1
