"""Logs: one writer per file, whole lines, nothing lost, and never a task that waits for a disk."""
import glob
import json
import os
import re
import signal
import subprocess

import pytest

from waiting import wait_until

LINE = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) (\d+) (\d+) ([OE]) \[([^\]]*)\] ?(.*)$")


def lines(s, queue="q"):
    """Parsed lines of all log files of the queue, rotated ones included."""
    out = []
    for path in sorted(glob.glob(os.path.join(s.log_dir, queue + "-*"))):
        try:
            with open(path, errors="replace", newline="\n") as f:
                text = f.read()
        except FileNotFoundError:  # rotated meanwhile
            continue
        for line in text.split("\n")[:-1]:
            m = LINE.match(line)
            assert m, (path, line)
            out.append(m.groups())
    return out


def of_task(s, task, stream="O", queue="q"):
    return [text for _, _, _, o, i, text in lines(s, queue) if i == task and o == stream]


def test_form_of_a_line(sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler()}}, supervisor={"workers": 1})
    pid = s.wait_ready(1)[0]["pid"]
    task, = server.add("q", b"do say=hello cry=oops")
    server.wait_empty("q")
    wait_until(lambda: of_task(s, task) and of_task(s, task, "E"))
    assert of_task(s, task) == ["hello"] and of_task(s, task, "E") == ["oops"]
    mine = [x for x in lines(s) if x[4] == task]
    assert {(x[1], x[2]) for x in mine} == {("0", str(pid))}
    assert [x for x in lines(s) if x[4] == "-"], "the worker speaks for itself as [-]"
    assert os.listdir(s.log_dir).count("q-0.log") == 1


def test_one_file_per_slot_with_a_safe_name(sup, server, journal):
    s = sup(queues={"a/b ü:c": {"handler": journal.handler()}})
    s.wait_ready(2)
    names = set(os.listdir(s.log_dir))
    assert {"a%2Fb%20%C3%BC%3Ac-0.log", "a%2Fb%20%C3%BC%3Ac-1.log"} <= names


@pytest.mark.parametrize("chunk", [1, 7, 4096, 65536])
def test_lines_are_whole_whatever_the_chunks(sup, server, journal, chunk):
    size = 20000 if chunk == 1 else 300000
    s = sup(queues={"q": {"handler": journal.handler(), "concurrency": 4}},
            supervisor={"workers": 1})
    tasks = server.add("q", *[b"do out=%d err=%d chunk=%d" % (size, size, chunk)] * 4)
    server.wait_empty("q")
    for task in tasks:
        for stream in "OE":
            wait_until(lambda: sum(len(x) + 1 for x in of_task(s, task, stream)) >= size)
            assert set(of_task(s, task, stream)) == {"x" * 99}


def test_last_words_without_a_newline(sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler(), "max_crashes": 1}},
            supervisor={"workers": 1})
    a, b = server.add("q", b"do tail=good-bye", b"do tail=argh signal=11")
    server.wait_empty("q")
    wait_until(lambda: of_task(s, a) == ["good-bye"] and of_task(s, b) == ["argh"])


def test_long_lines_are_split_not_cut(sup, server, journal, tmp_path):
    script = tmp_path / "long.sh"
    script.write_text("#!/bin/sh\nhead -c 100000 /dev/zero | tr '\\0' y; echo; echo end\n")
    script.chmod(0o755)
    s = sup(queues={"q": {"handler": "exec %s" % script}},
            supervisor={"workers": 1, "log_line_max": "1K"})
    task, = server.add("q", b"x")
    server.wait_empty("q")
    wait_until(lambda: of_task(s, task) and of_task(s, task)[-1] == "end")
    got = of_task(s, task)[:-1]
    assert "".join(got) == "y" * 100000 and max(map(len, got)) <= 1024


def test_rotation_by_size_loses_no_line(sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler(), "concurrency": 4}},
            supervisor={"workers": 1, "log_max_size": "64K", "log_keep": 1000})
    tasks = server.add("q", *[b"do out=100000"] * 20)
    server.wait_empty("q")
    wait_until(lambda: len([x for x in lines(s) if x[4] in tasks]) == 20 * 1000,
               what="20000 lines are there")
    files = glob.glob(os.path.join(s.log_dir, "q-0*"))
    assert len(files) > 10 and max(map(os.path.getsize, files)) <= 80 * 1024


def test_log_keep_bounds_the_files(sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler()}},
            supervisor={"workers": 1, "log_max_size": "16K", "log_keep": 2})
    server.add("q", *[b"do out=50000 say=last"] * 10)
    server.wait_empty("q")
    wait_until(lambda: len(glob.glob(os.path.join(s.log_dir, "q-0*"))) == 3)


@pytest.mark.parametrize("how", ["USR1", "reopen-logs"])
def test_reopen_after_a_move_loses_no_line(sup, server, journal, how):
    s = sup(queues={"q": {"handler": journal.handler(), "concurrency": 2}},
            supervisor={"workers": 1})
    s.wait_ready(1)
    tasks = server.add("q", *[b"do out=20000 sleep=20"] * 40)
    path = os.path.join(s.log_dir, "q-0.log")
    for n in range(5):
        journal.wait_ended(6 * (n + 1))
        os.rename(path, "%s.moved.%d" % (path, n))
        if how == "USR1":
            s.signal(signal.SIGUSR1)
        else:
            s.ctl("reopen-logs", check=0)
        wait_until(lambda: os.path.exists(path), 5)
    server.wait_empty("q")
    wait_until(lambda: len([x for x in lines(s) if x[4] in tasks]) == 40 * 200)


def test_a_deleted_file_comes_back_by_itself(sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler()}}, supervisor={"workers": 1})
    s.wait_ready(1)
    path = os.path.join(s.log_dir, "q-0.log")
    wait_until(lambda: os.path.exists(path))
    os.unlink(path)

    def back():
        server.add("q", b"do say=here")
        server.wait_empty("q")
        return os.path.exists(path)
    wait_until(back, every=0.2)


def test_a_full_disk_blocks_no_task_and_is_said(sup, server, journal, tmp_path):
    log_dir = tmp_path / "small"
    log_dir.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", log_dir],
                      capture_output=True).returncode:
        pytest.skip("mounting a small tmpfs needs root")
    try:
        s = sup(queues={"q": {"handler": journal.handler(), "concurrency": 4}},
                supervisor={"workers": 1, "log_dir": log_dir, "log_max_size": "10M"})
        s.wait_ready(1)
        server.add("q", *[b"do out=50000"] * 20)
        server.wait_empty("q")
        assert server.counters("q")["done"] == 20
        path = log_dir / "q-0.log"
        os.truncate(path, 0)

        def said():
            server.add("q", b"do say=more")
            server.wait_empty("q")
            return re.search(r"\d+ lines? .*dropped|dropped \d+ lines?", path.read_text("latin-1"))
        wait_until(said, every=0.2)
        s.close()
    finally:
        subprocess.run(["umount", "-l", log_dir])


def test_a_stdout_on_a_full_disk_goes_on_when_there_is_room(sup, server, journal, tmp_path):
    """Also the supervisor's own log, on stderr: 2>&1 into the same file."""
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", small],
                      capture_output=True).returncode:
        pytest.skip("mounting a small tmpfs needs root")
    try:
        s = sup(queues={"q": {"handler": journal.handler(), "concurrency": 4}}, start=False,
                supervisor={"workers": 1, "log_to": "stdout"})
        s.out_path = str(small / "out")
        with open(s.out_path, "ab") as out:
            s.proc = subprocess.Popen(s.command(), env=s.env, stdin=subprocess.DEVNULL, stdout=out,
                                      stderr=out, cwd=s.dir, start_new_session=True)
        s.wait_ready(1)
        server.add("q", *[b"do out=50000"] * 20)
        server.wait_empty("q")
        os.truncate(s.out_path, 0)
        wait_until(lambda: re.search(r"\d+ lines? dropped", s.out()))
        server.add("q", b"do say=heard")
        wait_until(lambda: "] heard\n" in s.out())
        s.ctl("reopen-logs", check=0)
        wait_until(lambda: "logs reopened" in s.out())
        s.close()
    finally:
        subprocess.run(["umount", "-l", small])
        (small / "out").touch()                  # where its last words are looked for


def test_a_removed_log_directory_blocks_no_task(sup, server, journal):
    import shutil
    s = sup(queues={"q": {"handler": journal.handler()}}, supervisor={"workers": 1})
    s.wait_ready(1)
    shutil.rmtree(s.log_dir)
    server.add("q", *[b"do out=20000"] * 10)
    server.wait_empty("q")
    assert server.counters("q")["done"] == 10


def test_json_lines_nest_objects(sup, server, journal, tmp_path):
    script = tmp_path / "json.sh"
    script.write_text("#!/bin/sh\necho '{\"level\":\"info\",\"n\":1}'\necho 'plain \"text\"'\n"
                      "printf 'bad \\377 utf\\n'\n")
    script.chmod(0o755)
    s = sup(queues={"q": {"handler": "exec %s" % script}},
            supervisor={"workers": 1, "log_format": "json"})
    task, = server.add("q", b"x")
    server.wait_empty("q")

    def mine():
        return [r for r in map(json.loads, s.log("q").splitlines()) if r.get("id") == task]
    rows = wait_until(lambda: len(mine()) == 3 and mine())
    assert rows[0]["data"] == {"level": "info", "n": 1} and "line" not in rows[0]
    assert rows[1]["line"] == 'plain "text"' and rows[1]["queue"] == "q" and rows[1]["slot"] == 0
    assert rows[2]["line"].startswith("bad ") and rows[2]["line"].endswith(" utf")


def test_log_to_stdout(sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler()}},
            supervisor={"workers": 1, "log_to": "stdout"})
    server.add("q", b"do say=to-the-journal")
    server.wait_empty("q")
    wait_until(lambda: "to-the-journal" in s.out())
    assert not glob.glob(os.path.join(s.log_dir, "q-*"))


def test_a_closed_stdout_stops_nothing(build, sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler()}}, start=False,
            supervisor={"workers": 1, "log_to": "both"})
    s.out_path = os.path.join(s.dir, "none")
    open(s.out_path, "w").close()
    r, w = os.pipe()
    s.proc = subprocess.Popen(s.command(), env=s.env, stdin=subprocess.DEVNULL, stdout=w,
                              stderr=w, cwd=s.dir, start_new_session=True)
    os.close(w)
    s.wait_ready(1)
    server.add("q", *[b"do out=200000"] * 3)
    server.wait_empty("q")
    os.close(r)
    server.add("q", *[b"do out=20000"] * 3)
    server.wait_empty("q")
    assert server.counters("q")["done"] == 6
    assert s.stop() in (0, 1)
