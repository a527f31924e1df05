-- Look for entries that somebody let go of, those I released myself included: one page of the
-- pending list, nothing is written.
-- KEYS 1 stream 2 names 3 crash   ARGV 1 group 2 me 3 from (the last id of the page before, or '-') 4 count
--                              5 lease ms 6 foreign idle ms
-- {redis_ms, last id of the page or '' at the end, {id, owner, idle, count, crash record, ...}}
local page = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[3], '+', ARGV[4])
local out, last = {}, ''
for _, p in ipairs(page or {}) do
  local idle = p[3]
  if p[1] ~= ARGV[3] and (p[2] ~= ARGV[2] or idle >= RELEASED_IDLE) and
     idle >= tonumber(ARGV[5]) and
     (idle >= RELEASED_IDLE or idle >= tonumber(ARGV[6]) or
      redis.call('HEXISTS', KEYS[2], p[2]) == 1) then
    for k = 1, 4 do out[#out + 1] = p[k] end
    local record = redis.pcall('HGET', KEYS[3], p[1]) -- of the wrong type: then it has none
    out[#out + 1] = type(record) == 'string' and record or ''
  end
end
if page and #page == tonumber(ARGV[4]) then last = page[#page][1] end
return {text(now_ms()), last, out}
