-- Put in front of _prelude.lua where the queue is a stream of Redis itself.

-- What was moved to a consumer and has not been taken over by it yet: a stream has nothing of that
-- kind.
local function let_go() end
