"""Command line and configuration: -t, --print-config, every error at once, the exit codes."""
import os
import subprocess

import pytest

from waiting import wait_until


@pytest.fixture
def run(build, sup):
    """Runs redisq-supervisor with these arguments and this ini text; nothing must stay behind."""
    s = sup(start=False, ini=False, server=None)

    def call(*args, ini=None, env=None, program="redisq-supervisor"):
        args = [str(a) for a in args]
        if ini is not None:
            s.write_ini(ini)
            args = ["-c", s.ini] + args
        done = subprocess.run([os.path.join(build, program)] + args, timeout=30,
                              env=dict(s.env, **(env or {})), capture_output=True, cwd=s.dir,
                              stdin=subprocess.DEVNULL)
        done.out, done.err = done.stdout.decode(), done.stderr.decode()
        return done
    call.dir = s.dir
    return call


GOOD = "[queue q]\nhandler = exec /bin/true\n"


@pytest.mark.parametrize("program", ["redisq-supervisor", "redisq-worker", "redisqctl"])
def test_help_and_version(run, program):
    done = run("--version", program=program)
    assert done.returncode == 0 and program in done.out
    for word in ("--help", "-h"):
        done = run(word, program=program)
        assert done.returncode == 0 and "usage" in done.out.lower()


def test_a_good_file_passes_the_test(run):
    done = run("-t", ini=GOOD)
    assert done.returncode == 0, done.err


def test_all_errors_are_reported_at_once_with_file_and_line(run):
    done = run("-t", ini="""[supervisor]
workers = many
nosuch = 1
[queue q]
handler = exec /bin/true
timeout = 1800
concurrency = x
lease = 10ms
retry_delay = 1s
retry_delay = 2s
   indented = 1
[nosection]
a = 1
[queue r]
handler = exec echo a | wc
""")
    assert done.returncode == 78
    for line in (2, 3, 6, 7, 8, 10, 11, 12, 15):
        assert "redisq.ini:%d:" % line in done.err, (line, done.err)
    assert "1800s" in done.err and "30m" in done.err
    assert "indented" in done.err
    assert "sh -c" in done.err
    assert all(len(x) < 400 for x in done.err.splitlines())


@pytest.mark.parametrize("line,says", [
    ("handler = exec /nonexistent/program", "/nonexistent/program"),
    ("handler = exec no-such-program-here", "no-such-program-here"),
    ("handler = exec /etc/passwd", "/etc/passwd"),
    ("handler = exec /bin/true\ncwd = /nonexistent", "/nonexistent"),
    ("handler = exec /bin/true\nenv_file = /nonexistent", "/nonexistent"),
    ("handler = exec 'unclosed", "redisq.ini:2"),
    ("handler = cat", "write exec cat"),
    ("handler = pipe no-such-program-here", "no-such-program-here"),
    ("handler = so a.so b.so", "takes no words"),
    ("handler = so /nowhere/a.so", "/nowhere/a.so: No such file or directory; give the path of a"),
    ("handler = so /etc", "/etc is not a file; give the path of a library"),
    ("backend = queue\nhandler = exec /bin/true", "backend"),
    ("handler = exec /bin/true\nconsumer = fixed", "%p"),
    ("handler = exec /bin/true\nretry_delay = 1h\nretry_delay_max = 1m", "retry_delay"),
    ("handler = exec /bin/true\npayload_max = 100", "payload_max"),
    ("concurrency = 2", "handler"),
])
def test_what_a_queue_may_not_say(run, line, says):
    done = run("-t", ini="[queue q]\n" + line + "\n")
    assert done.returncode == 78 and says in done.err, done.err


@pytest.mark.parametrize("url", ["redis://x@h", "http://h", "redis://h:99999", "redis://h/x"])
def test_bad_urls(run, url):
    done = run("-t", ini="[redis]\nurl = %s\n%s" % (url, GOOD))
    assert done.returncode == 78 and "redisq.ini:2" in done.err


def test_not_positive_numbers_fall_back_with_a_warning(run):
    done = run("--print-config", ini=GOOD + "concurrency = 0\nread_count = -3\n")
    assert done.returncode == 0
    assert "warning" in done.err and "concurrency" in done.err and "read_count" in done.err
    assert value(done.out, "concurrency") == "4" and value(done.out, "read_count") == "10"


def value(out, key):
    """The value of `key` in what --print-config printed; the last one if it is there twice."""
    found = None
    for line in out.splitlines():
        left, eq, right = line.split("  #")[0].partition("=")
        if eq and left.strip().lstrip("#").strip() == key and not line.lstrip().startswith("#"):
            found = right.strip()
    return found


@pytest.mark.parametrize("env,args,want", [
    ({}, (), "7"),
    ({"QUEUE_REDIS_CONCURRENCY": "5"}, (), "5"),
    ({"QUEUE_REDIS_CONCURRENCY": "5", "REDISQ_QUEUE_CONCURRENCY": "6"}, (), "6"),
    ({"REDISQ_QUEUE_CONCURRENCY": "6"}, ("-s", "queue.concurrency=8"), "8"),
    ({}, ("-s", "queue q.concurrency=9"), "9"),
    ({"REDISQ_QUEUE_CONCURRENCY": "6"}, ("-j", "3"), "3"),
    ({"QUEUE_REDIS_CONCURRENCY": "lots"}, (), "4"),
    ({"QUEUE_REDIS_CONCURRENCY": "-2"}, (), "4"),
])
def test_precedence(run, env, args, want):
    done = run("--print-config", *args, ini=GOOD + "concurrency = 7\n", env=env)
    assert done.returncode == 0, done.err
    assert value(done.out, "concurrency") == want, done.out


@pytest.mark.parametrize("ini,env,want", [
    ("", {}, "redis://127.0.0.1:6379/0"),
    ("", {"REDIS_URL": "redis://a:1/0"}, "redis://a:1/0"),
    ("[redis]\nurl = redis://f:2/0\n", {"REDIS_URL": "redis://a:1/0"}, "redis://f:2/0"),
    ("[redis]\nurl = redis://f:2/0\n", {"REDISQ_REDIS_URL": "redis://e:3/0"}, "redis://e:3/0"),
])
def test_redis_url_counts_only_where_the_file_sets_none(run, ini, env, want):
    done = run("--print-config", ini=ini + GOOD, env=env)
    assert value(done.out, "url") == want, done.out


def test_print_config_says_origins_and_hides_secrets(run):
    done = run("--print-config", "-s", "queue.lease=30s",
               ini="[redis]\npassword = s3cret ;x#\nurl = redis://u:hush@h:1/0\n" + GOOD,
               env={"REDISQ_QUEUE_MAX_ATTEMPTS": "3"})
    assert done.returncode == 0
    assert "s3cret" not in done.out and "hush" not in done.out and "***" in done.out
    for origin in ("redisq.ini:2", "REDISQ_QUEUE_MAX_ATTEMPTS", "-s", "default"):
        assert origin in done.out, done.out


def test_unknown_redisq_variables_are_warned_about(run):
    done = run("-t", ini=GOOD, env={"REDISQ_QUEUE_CONCURENCY": "3"})
    assert done.returncode == 0 and "REDISQ_QUEUE_CONCURENCY" in done.err


@pytest.mark.parametrize("handler,says", [
    ("exec sh gone.sh", "gone.sh is not there; if it is a script, every task will fail"),
    ("exec ./odd", "odd is neither a program nor a script with a #! line"),
    ("exec ./dos", "ends in a carriage return"),
])
def test_doubtful_handlers_are_warned_about(run, handler, says):
    for name, text in (("odd", "echo\n"), ("dos", "#!/bin/sh\r\n")):
        path = os.path.join(run.dir, name)
        with open(path, "w", newline="") as f:
            f.write(text)
        os.chmod(path, 0o755)
    done = run("-t", ini="[queue q]\nhandler = %s\ncwd = %s\n" % (handler, run.dir))
    assert done.returncode == 0
    assert "redisq.ini:2: [queue q] handler: " in done.err and says in done.err


def test_no_workers_are_warned_about(run):
    done = run("-n", "0", "-t", ini=GOOD)
    assert done.returncode == 0 and "0 workers: nothing will run" in done.err


def test_lease_warning(run):
    done = run("-t", ini="[supervisor]\nheartbeat_timeout = 10s\nkill_timeout = 5s\n" + GOOD +
               "lease = 12s\n")
    assert done.returncode == 0
    assert "warning" in done.err and "lease" in done.err


@pytest.mark.parametrize("args,says", [
    (("--nosuch",), "nosuch"), (("-c", "16"), "-j 16"), (("-n",), "-n"), (("-n", "x"), "-n"),
    (("-c", "/proc/version", "--", "true"), "--"), (("-s", "nonsense"), "-s"),
])
def test_usage_errors(run, args, says):
    done = run(*args)
    assert done.returncode in (64, 78) and says in done.err, done.err
    if args[0] != "-s":
        assert done.returncode == 64


def test_without_anything_it_shows_how_to_start(run):
    done = run(env={"REDISQ_NOTHING": ""})
    assert done.returncode == 64
    assert "-e -q demo --" in done.out + done.err


def test_missing_and_unreadable_files(run, tmp_path):
    assert run("-c", tmp_path / "nosuch.ini").returncode == 78
    assert run("-c", tmp_path).returncode == 78


def test_passwords_with_semicolons_and_hashes_are_intact(sup, server, journal):
    server.r.config_set("requirepass", "a ;b #c")
    server.r = server.client(password="a ;b #c")
    s = sup(queues={"q": {"handler": journal.handler()}}, redis={"password": "a ;b #c"},
            supervisor={"workers": 1})
    s.wait_ready(1)


def test_one_queue_without_any_file(sup, server, journal):
    s = sup(ini=False, start=False)
    s.args = ["-n", "1", "-j", "2", "-s", "redis.url=" + server.url,
              "-s", "supervisor.control_socket=" + s.socket,
              "-s", "supervisor.pid_file=" + s.run_dir + "/pid",
              "-s", "supervisor.log_dir=" + s.log_dir,
              "-s", "supervisor.state_dir=" + s.state_dir,
              "-q", "demo", "--"] + journal.argv("say=two words")
    s.start()
    s.wait_ready(1)
    server.add("demo", b"x")
    server.wait_empty("demo")
    wait_until(lambda: "two words" in s.log("demo") or "two words" in s.out())
    assert s.status()["queues"][0]["total_parallelism"] == 2


def test_q_selects_a_queue_of_the_file(sup, server, journal):
    keys = {"handler": journal.handler(), "workers": 1}
    s = sup(queues={"a": keys, "b": keys}, args=["-q", "b"])
    s.wait_ready(1)
    assert [q["name"] for q in s.status()["queues"]] == ["b"]


def test_n_beats_the_file_and_survives_a_reload(sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler()}}, supervisor={"workers": 1},
            args=["-n", "3"])
    s.wait_ready(3)
    s.ctl("reload", check=0)
    s.wait_ready(3)


def test_private_redis(sup, journal):
    s = sup(server=None, ini=False, start=False)
    s.args = ["-e", "-n", "1", "-s", "supervisor.control_socket=" + s.socket,
              "-s", "supervisor.pid_file=" + s.run_dir + "/pid",
              "-s", "supervisor.log_dir=" + s.log_dir, "-s", "supervisor.state_dir=" + s.state_dir,
              "-q", "demo", "--"] + journal.argv()
    s.env["REDIS_URL"] = "redis://127.0.0.1:1/0"
    s.start()
    s.wait_ready(1, timeout=30)
    s.ctl("push", "demo", "x", check=0)
    journal.wait_ended(1)
    s.ctl("stop", check=0)
    s.ctl("push", "demo", "kept", check=0)
    assert s.stop() == 0
    wait_until(lambda: not s.marked(), what="its redis-server has gone with it")
    s.start()
    journal.wait_ended(2)


def test_daemon_returns_when_the_control_socket_answers(sup, server, journal):
    import signal
    s = sup(queues={"q": {"handler": journal.handler()}}, start=False)
    s.args = ["-D"]
    s.start()
    assert s.wait_exit() == 0
    assert s.ctl("ping", check=0).out.strip() == "pong"
    pid = s.status()["supervisor"]["pid"]
    assert os.getsid(pid) != os.getsid(0) and os.getppid() != pid
    wait_until(lambda: len(s.ready()) == 2)
    wait_until(lambda: os.path.exists(os.path.join(s.log_dir, "supervisor.log")))
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not s.marked())


def test_daemon_reports_a_failed_start(sup, server, journal):
    s = sup(queues={"q": {"handler": "exec /bin/true", "lease": "1"}}, start=False)
    s.args = ["-D"]
    s.start()
    assert s.wait_exit() == 78
    assert "redisq.ini:" in s.out()


def test_worker_by_itself(sup, server, journal):
    """redisq-worker -c FILE -q QUEUE, as in a container."""
    s = sup(queues={"q": {"handler": journal.handler("say=alone")}}, start=False)
    s.out_path = s.dir + "/worker.out"
    with open(s.out_path, "wb") as out:
        s.proc = subprocess.Popen([s.build + "/redisq-worker", "-c", s.ini, "-q", "q"], env=s.env,
                                  stdout=out, stderr=out, stdin=subprocess.DEVNULL, cwd=s.dir)
    server.add("q", *[b"x"] * 3)
    server.wait_empty("q")
    wait_until(lambda: s.out().count("alone") == 3)
    assert s.stop() == 0
    assert not server.consumers("q")
