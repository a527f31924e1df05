-- A stream command, done with the lists of a queue: for programs that look at queues of both kinds.
-- KEYS 1 the list   ARGV the command, word by word
if ARGV[1] ~= 'XADD' then return redis.call(unpack(ARGV)) end
local fields = {}
for i = 4, #ARGV do fields[i - 3] = ARGV[i] end -- maybe more than unpack() can do
return add(ARGV[2], fields)
