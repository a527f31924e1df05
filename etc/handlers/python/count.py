#!/usr/bin/env python3
"""An example: counts to {"to": N}, a step every 100 ms, and goes on where it was if it is killed.

    redisq-supervisor -e -q count -k pipe -- python3 etc/handlers/python/count.py
    redisqctl push count '{"to": 50}'
"""
import asyncio

import redisq


async def handle(task):
    to = task.json().get("to")
    if not isinstance(to, int):
        raise redisq.Dead('say {"to": N}')
    for n in range(task.saved or 0, to):
        await asyncio.sleep(0.1)
        task.checkpoint(n + 1)
        task.progress("%d of %d" % (n + 1, to))
    print("counted to %d in attempt %d" % (to, task.attempt))
    return {"counted": to}


redisq.run(handle, slots=16)
