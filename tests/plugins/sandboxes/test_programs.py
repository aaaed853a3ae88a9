"""Programs in a strong sandbox: what they need works, what outlives or exceeds is ended, and nothing starts unconfined."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apex_framework.interfaces import Confinement
from apex_sandboxes.inside.launch import CANNOT
from apex_sandboxes.landlocked import LandlockSandbox
from apex_sandboxes.plan import launcher

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def limits(tmp_path: Path) -> Confinement:
    return Confinement(tmp_path, memory=512 << 20, cpu_s=5.0, processes=16)


@pytest.fixture
def python(strong: LandlockSandbox, limits: Confinement) -> Run:
    def run(code: str, **changed: Any) -> subprocess.CompletedProcess[str]:
        argv = strong.wrap([sys.executable, "-I", "-S", "-B", "-c", code], replace(limits, **changed))
        return subprocess.run(argv, cwd=limits.root, capture_output=True, text=True, timeout=60, check=False)

    return run


def test_ordinary_programs_work(python: Run, limits: Confinement) -> None:
    code = """
import asyncio, os, socket, subprocess, tempfile, threading
open("a", "w").write("x"); os.rename("a", "b"); os.chmod("b", 0o600); os.mkdir("d"); os.symlink("b", "c")
open("/dev/null", "w").write("x"); open("/dev/urandom", "rb").read(1)
t = threading.Thread(target=print, args=("thread",)); t.start(); t.join()
print(subprocess.run(["sh", "-c", "echo child"], capture_output=True, text=True).stdout.strip())
asyncio.run(asyncio.sleep(0))
a, b = socket.socketpair(); a.send(b"pair"); print(b.recv(4).decode())
"""
    done = python(code)
    assert (done.stdout.split(), done.returncode) == (["thread", "child", "pair"], 0), done.stderr
    assert (limits.root / "b").read_text() == "x"


def test_programs_may_ask_how_many_processors_they_have(python: Run) -> None:
    names = ("cpu.max", "cpu/cpu.cfs_period_us", "cpu/cpu.cfs_quota_us", "cpu/cpu.shares")
    code = f"""
import os
os.cpu_count(); open("/proc/cpuinfo").read()
for path in {[f"/sys/fs/cgroup/{name}" for name in names]!r}:
    if os.path.exists(path): open(path).read()
"""
    done = python(code)
    assert done.returncode == 0, done.stderr


def test_processes_may_share_memory_and_talk_to_themselves_but_to_nobody_else(python: Run) -> None:
    if not LandlockSandbox()._namespaces:
        pytest.skip("namespaces are not allowed here")
    code = """
import multiprocessing, socket
value = multiprocessing.get_context("fork").Value("i", 0)
def work():
    with value.get_lock(): value.value += 1
tasks = [multiprocessing.get_context("fork").Process(target=work) for _ in range(3)]
[t.start() for t in tasks]; [t.join() for t in tasks]; print(value.value)
server = socket.create_server(("127.0.0.1", 0)); client = socket.create_connection(server.getsockname()); print("self")
"""
    done = python(code)
    assert done.stdout.split() == ["3", "self"], done.stderr
    assert not [name for name in os.listdir("/dev/shm") if name.startswith("sem.mp-")]


def test_work_may_lie_in_shared_memory_and_what_lies_beside_it_is_hidden(strong: LandlockSandbox) -> None:
    if not strong._namespaces:
        pytest.skip("namespaces are not allowed here")
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("no shared memory here")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        work, given, single, beside = (Path(folder) / name for name in ("work", "given", "single", "beside"))
        work.mkdir()
        given.mkdir()
        for path in (given / "a", single, beside):
            path.write_text("read")
        code = f"""
import multiprocessing, os
open("b", "w").write("written"); print(open({str(given / "a")!r}).read(), open({str(single)!r}).read())
for path in ({str(given / "c")!r}, {str(single)!r}):
    try: open(path, "w").close()
    except OSError as error: print(error.errno)
print(os.path.exists({str(beside)!r})); multiprocessing.Lock()
"""
        limits = Confinement(work, readable=(given, single), memory=512 << 20, cpu_s=5.0, processes=16)
        argv = strong.wrap([sys.executable, "-I", "-S", "-B", "-c", code], limits)
        done = subprocess.run(argv, cwd=work, capture_output=True, text=True, timeout=60, check=False)
        only_read = str(errno.EROFS)
        assert (done.stdout.split(), done.returncode) == (["read", "read", only_read, only_read, "False"], 0), (
            done.stderr
        )
        assert (work / "b").read_text() == "written"
        assert single.read_text() == "read"


@pytest.mark.parametrize("namespaces", [True, False])
def test_what_outlives_its_program_is_ended(strong: LandlockSandbox, limits: Confinement, namespaces: bool) -> None:
    if namespaces and not strong._namespaces:
        pytest.skip("namespaces are not allowed here")
    code = (
        "import os,sys,time\n"
        "if os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n  sys.stdout.flush(); time.sleep(600)\n os._exit(0)\n"
        "os.wait(); print('gone')"
    )
    argv = LandlockSandbox(namespaces=namespaces).wrap([sys.executable, "-I", "-S", "-c", code], limits)
    # The daemon holds the pipe: reading to its end shows that it is gone.
    done = subprocess.run(argv, cwd=limits.root, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.returncode) == ("gone", 0), done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_tree_ends_with_its_supervisor(strong: LandlockSandbox, limits: Confinement, number: int) -> None:
    if not strong._namespaces:
        pytest.skip("namespaces are not allowed here")
    code = "import os,time\nos.fork()\nprint('ready', flush=True)\ntime.sleep(600)"
    argv = strong.wrap([sys.executable, "-I", "-S", "-c", code], limits)
    process = subprocess.Popen(argv, cwd=limits.root, stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    process.send_signal(number)
    rest, _ = process.communicate(timeout=30)  # ends when nobody holds the pipe any more
    assert rest in (b"", b"ready\n")
    assert process.returncode == -number


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import os,time\nfor _ in range(40):\n if os.fork() == 0:\n  time.sleep(60)\ntime.sleep(60)", "16 processes"),
        (
            "import os,time\nfor _ in range(4):\n if os.fork() == 0:\n  x = bytearray(b'x') * (200 << 20); time.sleep(60)\n"
            "time.sleep(60)",
            "bytes of memory",
        ),
        (
            "import os\nfor _ in range(4):\n if os.fork() == 0:\n  while True: pass\n[os.wait() for _ in range(4)]",
            "processor time",
        ),
    ],
)
def test_what_takes_too_much_together_is_ended(python: Run, code: str, why: str) -> None:
    done = python(code, cpu_s=2.0 if why == "processor time" else 5.0)
    assert done.returncode == -signal.SIGKILL
    assert why in done.stderr and done.stderr.startswith("apex: stopped: more than")


def test_a_program_is_not_run_where_it_cannot_be_confined(strong: LandlockSandbox, limits: Confinement) -> None:
    plan = {**strong._plan(limits), "supervised": True}
    del plan["devices"]
    argv = [*launcher(plan), sys.executable, "-c", "print('ran')"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (CANNOT, "")
    assert done.stderr.startswith("apex: cannot confine: ") and done.stderr.count("\n") == 1


def test_an_unknown_program_has_its_usual_status(strong: LandlockSandbox, limits: Confinement) -> None:
    argv = strong.wrap(["no-such-program"], limits)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 127 and "no-such-program" in done.stderr


def test_only_named_folders_are_there_to_read_and_to_change(
    python: Run, tmp_path_factory: pytest.TempPathFactory
) -> None:
    read, change = tmp_path_factory.mktemp("read"), tmp_path_factory.mktemp("change")
    (read / "fact").write_text("fact")
    code = f"""
print(open({str(read / "fact")!r}).read()); open({str(change / "new")!r}, "w").write("new")
try: open({str(read / "new")!r}, "w")
except OSError: print("refused")
"""
    done = python(code, readable=(read,), writable=(change,))
    assert done.stdout.split() == ["fact", "refused"], done.stderr
    assert (change / "new").read_text() == "new" and os.listdir(read) == ["fact"]
