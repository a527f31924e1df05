-- Put in front of _prelude.lua where the queue is a stream of Redis itself.

-- What was moved by a read and is nobody's yet: a stream has nothing of that kind.
local function let_go() end

-- Entries that no read will ever bring: the one who asks finds those of a stream by its group.
local function n_unreachable() return 0 end
