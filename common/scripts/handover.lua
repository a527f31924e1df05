-- Let everyone have what a dead worker had pending; charge a crash to what it was running.
-- Its handlers have been killed and reaped before anybody calls this.
-- KEYS 1 stream 2 claim record of the dead 3 crash 4 ckpt 5 progress
-- ARGV 1 group 2 name of the dead 3 its nonce 4 charge (0|1) 5 ttl_ms of the tombstone
--      6 from (the last id of the page before, or '-') 7 to ('+', or how far the list reaches)
--      8 cause 9 n, then per task it ran, of those from..to: id token
-- {-1} the name lives again; {moved, charged, last id of the page or '' at the end}
local stream, claim, crash = KEYS[1], KEYS[2], KEYS[3]
local group, dead, nonce = ARGV[1], ARGV[2], ARGV[3]
local held = nonce_of(redis.call('GET', claim))
local others = held and held ~= nonce and held ~= 'dead:' .. nonce
if others and string.sub(held, 1, 5) ~= 'dead:' then return {-1} end
local bad = wrong_type({[crash] = 'hash'})
if bad then return bad end

local ran = {}
for i = 1, tonumber(ARGV[9]) do ran[ARGV[8 + 2 * i]] = ARGV[9 + 2 * i] end
local page = redis.call('XPENDING', stream, group, ARGV[6], ARGV[7], 1000, dead) or {}
local ids, to_charge = {}, {}
for _, p in ipairs(page) do
  if p[1] ~= ARGV[6] then
    ids[#ids + 1] = p[1]
    if ARGV[4] == '1' and ran[p[1]] == tostring(p[4]) then to_charge[#to_charge + 1] = p end
  end
end
local last = page[1000] and page[1000][1] or (ARGV[7] ~= '+' and ARGV[7] or '')
-- The tombstone of another life: this order, or that one, comes late. What this life ran and nobody
-- has taken since is charged all the same; without such, all is that other life's.
if others and #to_charge == 0 then return {0, 0, last} end

unlock_at_oom(stream)
let_go()
redis.call('SET', claim, 'dead:' .. nonce, 'PX', ARGV[5]) -- nobody takes the name meanwhile
local charged = 0
for _, p in ipairs(to_charge) do
  local count, token = string.match(redis.call('HGET', crash, p[1]) or '', '^(%d+):(%d+):')
  if token ~= ran[p[1]] then
    redis.call('HSET', crash, p[1], text((count or 0) + 1) .. ':' .. p[4] .. ':' .. ARGV[8])
    charged = charged + 1
  end
end
keep_or_drop(stream, group, dead, ids, {'TIME', '1'}, {crash, KEYS[4], KEYS[5]})
return {#ids, charged, last}
