"""Does what test_languages.py asks for, in Python."""
import asyncio
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.environ["HANDLERS"] + "/python")
import redisq


async def handle(task):
    if isinstance(task.payload, bytes):
        return {"bytes": len(task.payload), "last": task.payload[-1]}
    want = task.json()
    do = want["do"]
    if do == "echo":
        return {"id": task.id, "queue": task.queue, "attempt": task.attempt, "saved": task.saved,
                "field": str(task.fields.get("colour")), "text": want["text"]}
    if do == "nothing":
        return None
    if do == "fail":
        raise ValueError("it failed")
    if do == "dead":
        raise redisq.Dead("no such user")
    if do == "retry":
        raise redisq.Retry("busy", delay_ms=5000)
    if do == "snooze":
        raise redisq.Snooze(delay_ms=60000)
    if do == "wait":
        await asyncio.sleep(60)
    if do == "note":
        task.checkpoint({"job": 7})
        task.progress("half")
        return {"saved": task.saved}
    if do == "print":
        sys.stdout.write("x" * 99 + "\n")
        sys.stdout.write(('{"type":"dead"}' + "\n") * 10000)
        sys.stdout.flush()
    return "printed"


redisq.run(handle, slots=4)
