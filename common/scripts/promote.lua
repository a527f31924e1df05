-- Move delayed tasks that are due, by Redis's own clock, back to the stream.
-- KEYS 1 stream 2 delayed 3 bodies 4 dead 5 ckpt 6 crash 7 counters   ARGV 1 limit 2 dead_max
-- {moved, redis_ms, due time of the next one or ''}
-- At OOM the first write is refused, and the whole script with it: nothing is half moved.
-- A body that is missing, unreadable, or of more fields than a script can add makes a dead letter.
local stream, delayed, bodies, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local ckpt, crash, counters = KEYS[5], KEYS[6], KEYS[7]
local now = now_ms()
local due = redis.call('ZRANGEBYSCORE', delayed, '-inf', text(now), 'LIMIT', 0, ARGV[1])
local moved = 0
if #due > 0 then
  local bad = wrong_type({[stream] = 'stream', [bodies] = 'hash', [dead] = 'stream',
                          [ckpt] = 'hash', [crash] = 'hash', [counters] = 'hash'})
  if bad then return bad end
  redis.call('HINCRBY', counters, 'readded', 0) -- first: it is what OOM refuses
  redis.call('ZREM', delayed, '')
  redis.call('HDEL', bodies, '')
end

local function bury(id, letter)
  redis.call('XTRIM', dead, 'MAXLEN', '=', MAX_INT)
  redis.call('XADD', dead, '*', 'redisq.id', id, unpack(letter))
  redis.call('HINCRBY', counters, 'died', 1)
  local dropped = redis.call('XTRIM', dead, 'MAXLEN', '=', ARGV[2])
  if dropped > 0 then redis.call('HINCRBY', counters, 'dropped', dropped) end
end

for _, id in ipairs(due) do
  local body = redis.call('HGET', bodies, id)
  local ok, b = false, nil
  if body then ok, b = pcall(cmsgpack.unpack, body) end
  if not ok or type(b) ~= 'table' or #b ~= 8 or type(b[1]) ~= 'table' or #b[1] % 2 == 1 then
    bury(id, {'redisq.reason', 'body_missing',
              'redisq.error', 'the body of this delayed task is gone or unreadable',
              'redisq.died_at', text(now)})
  elseif #b[1] > 7000 then
    bury(b[2], {'redisq.fields_msgpack', cmsgpack.pack(b[1]), 'redisq.attempt', b[3],
                'redisq.deliveries', b[4], 'redisq.enqueued_at', b[6],
                'redisq.checkpoint', b[7],
                'redisq.reason', 'payload',
                'redisq.error', 'it failed, and has too many fields to be tried again',
                'redisq.died_at', text(now)})
  else
    local a = {'XADD', stream, '*'}
    for _, f in ipairs(b[1]) do a[#a + 1] = f end
    local function put(k, v) a[#a + 1] = k; a[#a + 1] = v end
    put('redisq.id', b[2])
    put('redisq.attempt', b[3])
    put('redisq.deliveries', b[4])
    put('redisq.snoozes', b[5])
    put('redisq.enqueued_at', b[6])
    -- The same body once more: HSET is permitted, then.
    if b[7] ~= '' or b[8] ~= '' then redis.call('HSET', bodies, id, body) end
    local new = redis.call(unpack(a))
    if b[7] ~= '' then redis.call('HSET', ckpt, new, b[7]) end
    if b[8] ~= '' then redis.call('HSET', crash, new, b[8]) end
    moved = moved + 1
  end
  redis.call('ZREM', delayed, id)
  redis.call('HDEL', bodies, id)
end
if moved > 0 then redis.call('HINCRBY', counters, 'readded', moved) end
local head = redis.call('ZRANGEBYSCORE', delayed, '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
return {moved, text(now), head[2] or ''}
