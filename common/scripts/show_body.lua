-- The body of a delayed task, unpacked; by its entry id, else one page of a search by task id.
-- KEYS 1 delayed 2 bodies   ARGV 1 id 2 cursor ('0' at first)
-- {next cursor or '0' at the end, {} or {entry id, due, fields, task id, attempt, deliveries,
--  snoozes, enqueued_at, checkpoint, crashes}}
local function found(id, b)
  local out = {id, redis.call('ZSCORE', KEYS[1], id) or ''}
  for i = 1, 8 do out[i + 2] = type(b[i]) == 'number' and text(b[i]) or b[i] end
  return out
end

local function unpacked(packed)
  local ok, b = pcall(cmsgpack.unpack, packed)
  return ok and type(b) == 'table' and #b == 8 and b
end

local packed = redis.call('HGET', KEYS[2], ARGV[1])
if packed then
  local b = unpacked(packed)
  if not b then return redis.error_reply('ERR the body of this delayed task is unreadable') end
  return {'0', found(ARGV[1], b)}
end
local page = redis.call('HSCAN', KEYS[2], ARGV[2], 'COUNT', 200)
for i = 1, #page[2], 2 do
  local b = unpacked(page[2][i + 1])
  if b and b[2] == ARGV[1] then return {'0', found(page[2][i], b)} end
end
return {page[1], {}}
