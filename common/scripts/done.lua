-- alone: the prelude would cost more than all of this
-- The short way of tasks that are simply done: nothing of them is in Redis but their entry, and
-- nobody wants to know their end. It does not look whose they are: for fresh evidence only.
-- KEYS 1 stream 2 counters   ARGV 1 group 2 keep entries (0|1: on_done = ack) 3... ids, at most 1000
-- how many of them were pending: those are counted. In a replay, or a late copy, none.
-- At OOM the first write is refused, and with it the rest: settle does it then. Before 7.0 Redis may be
-- told not to replicate effects unless asked to, and then refuses every write after XACK.
if redis.replicate_commands then redis.replicate_commands() end
redis.call('HINCRBY', KEYS[2], 'done', 0)
if ARGV[2] == '0' then redis.call('XDEL', KEYS[1], '0-0') end
local n = redis.call('XACK', KEYS[1], ARGV[1], unpack(ARGV, 3))
if n > 0 then redis.call('HINCRBY', KEYS[2], 'done', n) end
if ARGV[2] == '0' then redis.call('XDEL', KEYS[1], unpack(ARGV, 3)) end
return n
