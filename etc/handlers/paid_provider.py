#!/usr/bin/python3
"""A handler for work that is slow and paid for, and is bought once, whatever dies meanwhile.

It orders a job from a provider, says the job's number as its checkpoint, and asks after it until it
is finished. An attempt that follows finds that number in REDISQ_CHECKPOINT and goes on with the same
job. Should everything die between the order and the checkpoint, the provider knows the order again
by its idempotency key: queue and task id, the same for all attempts of a task.

    etc/handlers/paid_provider.py --provider &         a provider to try it with, 20 s and $1 a job
    redisq-supervisor -e -q video -- etc/handlers/paid_provider.py
    redisqctl push video --wait '{"prompt": "a cat"}'
    etc/handlers/paid_provider.py --ledger             what it has charged

PROVIDER is its address, http://127.0.0.1:8077 unless set. This file alone is all that is needed.
"""
import json
import os
import sys
import time
import urllib.error
import urllib.request

PROVIDER = os.environ.get("PROVIDER", "http://127.0.0.1:8077")
LOOK_EVERY_S = 0.5


def say(**line):
    """One line of JSON on fd 3: checkpoint and progress at any time, the answer at the end."""
    os.write(int(os.environ["REDISQ_ANSWER_FD"]), json.dumps(line).encode() + b"\n")


def ask(path, body=None, key=None):
    headers = {"Idempotency-Key": key} if key else {}
    request = urllib.request.Request(PROVIDER + path, body, headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def handle():
    job = os.environ.get("REDISQ_CHECKPOINT")
    if job:
        print("going on with job %s" % job, flush=True)
    else:
        key = os.environ["REDISQ_QUEUE"] + "/" + os.environ["REDISQ_ID"]
        job = ask("/jobs", sys.stdin.buffer.read(), key)["job"]
        say(type="checkpoint", value=job)
        print("ordered job %s" % job, flush=True)
    while True:
        state = ask("/jobs/" + job)
        if state["state"] == "finished":
            return say(type="done", result={"job": job, "url": state["url"]})
        if state["state"] == "failed":
            return say(type="dead", error=state["error"])
        say(type="progress", value=state["progress"])
        time.sleep(LOOK_EVERY_S)


def main():
    try:
        handle()
    except urllib.error.HTTPError as e:
        if e.code in (429, 503):  # it is busy: not now, no attempt charged
            say(type="snooze", delay_ms=1000 * int(e.headers.get("Retry-After") or 10))
        elif 400 <= e.code < 500:  # it will never take this
            say(type="dead", error="the provider refuses it: %s" % e)
        else:
            raise


# ---------------------------------------------------------------- the pretended provider

def provider(port, seconds):
    """POST /jobs orders one and charges for it, once per Idempotency-Key; GET /jobs/N is how far it
    is, /ledger what was charged; POST /finish ends all that are under way."""
    import http.server

    orders, jobs, ledger = {}, {}, []

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self, code, value):
            text = json.dumps(value).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path == "/finish":
                for job in jobs.values():
                    job["ready"] = 0
                return self.answer(200, {})
            key = self.headers.get("Idempotency-Key")
            job = orders.get(key)
            if not job:
                job = "job-%d" % (len(jobs) + 1)
                orders[key] = job
                now = time.monotonic()
                jobs[job] = {"order": body.decode(errors="replace"), "begun": now,
                             "ready": now + seconds, "looks": 0}
                ledger.append({"job": job, "key": key, "charged": "$1"})
                print("charged $1 for %s (%s)" % (job, key), file=sys.stderr, flush=True)
            self.answer(200, {"job": job})

        def do_GET(self):
            if self.path == "/ledger":
                return self.answer(200, {"charges": ledger,
                                         "looks": {j: jobs[j]["looks"] for j in jobs}})
            job = jobs.get(self.path[len("/jobs/"):])
            if not job:
                return self.answer(404, {"error": "no such job"})
            job["looks"] += 1
            now = time.monotonic()
            if now >= job["ready"]:
                return self.answer(200, {"state": "finished",
                                         "url": "https://video.example%s.mp4" % self.path[5:]})
            done = (now - job["begun"]) / (job["ready"] - job["begun"])
            self.answer(200, {"state": "running", "progress": "%d %%" % (100 * done)})

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    print("the provider is at http://127.0.0.1:%d" % server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--provider"]:
        provider(int((sys.argv[2:] or ["8077"])[0]), float((sys.argv[3:] or ["20"])[0]))
    elif sys.argv[1:] == ["--ledger"]:
        for charge in ask("/ledger")["charges"]:
            print("%(charged)s for %(job)s, ordered as %(key)s" % charge)
    elif "REDISQ_ID" not in os.environ:
        sys.exit(__doc__)
    else:
        main()
