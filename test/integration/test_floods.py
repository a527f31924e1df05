"""Handlers that write more than anybody reads: memory has a bound, and tasks go on."""
import os
import subprocess

import procs
from waiting import wait_until

MB = 1024  # in kB, as /proc has it


def test_two_hundred_megabytes_into_a_log_that_hardly_moves(build, sup, server, tmp_path):
    script = tmp_path / "flood.sh"
    script.write_text("#!/bin/sh\nyes '%s' | head -c 100000000\n" % ("much to say " * 80).strip())
    script.chmod(0o755)
    s = sup(queues={"q": {"handler": "exec %s" % script, "concurrency": 2}}, start=False,
            supervisor={"workers": 1, "log_to": "stdout", "log_level": "info"})
    s.env["ASAN_OPTIONS"] += ":quarantine_size_mb=1"
    s.out_path = os.path.join(s.dir, "none")
    open(s.out_path, "w").close()
    slow, out = os.pipe()
    s.proc = subprocess.Popen(s.command(), env=s.env, stdin=subprocess.DEVNULL, stdout=out,
                              stderr=subprocess.DEVNULL, cwd=s.dir, start_new_session=True)
    os.close(out)
    pids = [s.pid, s.wait_ready(1)[0]["pid"]]
    spare = {pid: procs.status_kb(pid, "VmRSS") for pid in pids} if "asan" in build else {}
    server.add("q", b"x", b"x")

    def all_done():                              # 100 kB/s, of 200 MB in seconds
        os.read(slow, 4096)
        return server.xlen("q") == 0
    wait_until(all_done, 60, every=0.04)
    for pid in pids:
        peak = procs.status_kb(pid, "VmHWM") - spare.get(pid, 0)
        print("%s: at most %d kB" % (procs.name(pid), peak))
        assert peak < 64 * MB
    assert server.counters("q") == {"done": 2}
    assert s.workers()[0]["restarts"] == 0
    os.close(slow)
