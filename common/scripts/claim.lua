-- Take a consumer name for one incarnation of a worker.
-- KEYS 1 claim record 2 names 3 stream   ARGV 1 group 2 name 3 nonce 4 record 5 ttl_ms
-- {1} ours (a replay too); {0, holder} another holds it; {-1, n} the name still has pending entries
local held = redis.call('GET', KEYS[1])
if held and nonce_of(held) ~= ARGV[3] then return {0, held} end
if not held then
  local p = redis.call('XPENDING', KEYS[3], ARGV[1], '-', '+', 1, ARGV[2])
  if p and #p > 0 then return {-1, #p} end
end
local bad = wrong_type({[KEYS[2]] = 'hash'})
if bad then return bad end
-- A full Redis is drained by workers: they must be able to start.
unlock_at_oom(KEYS[3])
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
redis.call('SET', KEYS[1], ARGV[4], 'PX', ARGV[5])
return {1}
