-- Put dead letters, or held tasks, back on their stream as new: attempt 1, crashes forgotten.
-- What its last attempt left as a checkpoint is the next one's.
-- KEYS 1 dead or held 2 stream 3 counters 4 ckpt   ARGV ids
-- per id: the new entry's id, '' when it is not there (a replay too), or an error that names why
-- At OOM the first write is refused, and with it the rest: nothing is moved.
local from, stream, counters, ckpt = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local bad = wrong_type({[from] = 'stream', [stream] = 'stream', [counters] = 'hash',
                        [ckpt] = 'hash'})
if bad then return bad end

-- What is not the post-mortem: the user's fields, and who the task is.
local KEEP = {['redisq.id'] = 1, ['redisq.deliveries'] = 1, ['redisq.enqueued_at'] = 1}
local OURS = {['redisq.attempt'] = 1, ['redisq.snoozes'] = 1, ['redisq.reason'] = 1,
              ['redisq.error'] = 1, ['redisq.exit'] = 1, ['redisq.signal'] = 1,
              ['redisq.usage'] = 1, ['redisq.stderr'] = 1, ['redisq.worker'] = 1,
              ['redisq.host'] = 1, ['redisq.died_at'] = 1}

local function entry_of(fields)
  local a, own, left = {'XADD', stream, '*'}, {}, ''
  for i = 1, #fields, 2 do
    local name, value = fields[i], fields[i + 1]
    if name == 'redisq.fields_msgpack' then
      local ok, user = pcall(cmsgpack.unpack, value)
      if not ok or type(user) ~= 'table' then return nil end
      for _, f in ipairs(user) do a[#a + 1] = f end
    elseif KEEP[name] then
      own[name] = value
    elseif name == 'redisq.checkpoint' then
      left = value
    elseif not OURS[name] then
      a[#a + 1] = name
      a[#a + 1] = value
    end
  end
  own['redisq.attempt'] = '1'
  for _, name in ipairs({'redisq.id', 'redisq.attempt', 'redisq.deliveries',
                         'redisq.enqueued_at'}) do
    if own[name] then
      a[#a + 1] = name
      a[#a + 1] = own[name]
    end
  end
  return a, own, left
end

local out, tried = {}, false
for k, id in ipairs(ARGV) do
  local found = redis.pcall('XRANGE', from, id, id)
  out[k] = ''
  if found.err then
    out[k] = found -- not an id
  elseif found[1] then
    local a, own, left = entry_of(found[1][2])
    local body_missing = a and not own['redisq.enqueued_at'] and #a == 7
    if not a then
      out[k] = redis.error_reply('ERR its packed fields are unreadable')
    elseif body_missing then
      out[k] = redis.error_reply('ERR its body is lost, there is nothing to run')
    elseif #a > 7000 then
      out[k] = redis.error_reply('ERR it has more fields than a script can add')
    else
      if not tried then
        local n = redis.call('HINCRBY', counters, 'readded', 0) -- first: it is what OOM refuses
        redis.call('HSET', counters, 'readded', n)
        redis.call('XDEL', from, '0-0')
        tried = true
      end
      out[k] = redis.call(unpack(a))
      if left ~= '' then redis.call('HSET', ckpt, out[k], left) end
      redis.call('XDEL', from, id)
      redis.call('HINCRBY', counters, 'readded', 1)
    end
  end
end
return out
