"""Tests that never end, cheat or break out: each gets one honest result, and nothing survives it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from apex_framework.interfaces import Task, TestReport
from apex_workspaces import child
from apex_workspaces.inside import telling
from apex_workspaces.local import LocalWorkspaces

HEAD = "import os, re, signal, sys, threading, time, unittest\nfrom pkg.m import add\n\nclass T(unittest.TestCase):\n"
FINE = "    def test_z(self):\n        self.assertEqual(add(1, 2), 3)\n"


def body(code: str) -> str:
    lines = "\n".join(f"        {line}" for line in code.strip().splitlines())
    return f"{HEAD}    def test_a(self):\n{lines}\n{FINE}"


@pytest.fixture
def run(provider: LocalWorkspaces, make_task: Callable[..., Task]) -> Iterator[Callable[..., TestReport]]:
    def go(code: str, **options: object) -> TestReport:
        workspace = provider.create(make_task(body(code)))
        try:
            return workspace.run_tests(**options)  # type: ignore[arg-type]  # options of one signature
        finally:
            workspace.dispose()

    yield go
    assert survivors(provider) == []


def survivors(provider: LocalWorkspaces) -> list[str]:
    """Every process but the helper itself that carries the helper's mark."""
    mark, helper = provider._server._mark, provider._server.pid
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != helper:
            try:
                if mark and mark.encode() in Path(f"/proc/{name}/environ").read_bytes():
                    found.append(name)
            except OSError:
                continue
    return found


ENDLESS = {
    "empty loop": "while True: pass",
    "empty loop in two lines": "while True:\n    pass",
    "loop with work": "n = 0\nwhile True:\n    n += 1",
    "loop that catches everything": "while True:\n    try:\n        while True: add(1, 1)\n    except BaseException:\n        pass",
    "generator": "sum(1 for _ in iter(int, 1))",
    "comprehension": "[0 for _ in iter(int, 1)]",
}


@pytest.mark.parametrize("code", ENDLESS.values(), ids=ENDLESS)
def test_an_endless_loop_ends_after_its_lines(run: Callable[..., TestReport], code: str) -> None:
    report = run(code)
    assert [o.status for o in report.outcomes] == ["timeout", "passed"]
    assert "still running after 200,000 lines" in report.outcomes[0].detail
    assert report.cost_s == pytest.approx(0.05 + 2.0, abs=0.001)


def test_an_endless_recursion_leaves_counting_intact_for_the_next_test(
    run: Callable[..., TestReport], make_task: Callable[..., Task], provider: LocalWorkspaces
) -> None:
    tests = f"{HEAD}    def test_a(self):\n        def f(): return f()\n        f()\n    def test_b(self):\n        while True: add(1, 1)\n"
    report = provider.create(make_task(tests)).run_tests()
    assert [o.status for o in report.outcomes] == ["error", "timeout"]
    assert "RecursionError" in report.outcomes[0].detail
    assert "still running after 200,000 lines" in report.outcomes[1].detail


def test_an_endless_recursion_that_catches_itself_ends(run: Callable[..., TestReport]) -> None:
    report = run("def f():\n    while True:\n        try: f()\n        except RecursionError: pass\nf()")
    assert [o.status for o in report.outcomes] == ["timeout", "passed"]


BACKSTOPPED = {
    "catastrophic pattern": ("re.match(r'(a+)+$', 'a' * 64 + 'b')", "CPU time"),
    "huge power": ("9 ** 9 ** 9", "CPU time"),
    "endless iterator in C": ("sum(iter(lambda: 1, 2)) if 0 else sum(__import__('itertools').count())", "CPU time"),
    "ignores SIGXCPU": (
        "signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nsum(__import__('itertools').count())",
        "CPU time",
    ),
    "sleeps for ever": ("time.sleep(1e6)", "nothing happened"),
    "ignores SIGTERM and sleeps": (
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(1e6)",
        "nothing happened",
    ),
    "waits for a lock": ("threading.Lock().acquire() and threading.Event().wait()", "nothing happened"),
    "stops itself": ("os.kill(os.getpid(), signal.SIGSTOP)", "nothing happened"),
}


@pytest.mark.parametrize(("code", "why"), BACKSTOPPED.values(), ids=BACKSTOPPED)
def test_what_lines_cannot_stop_is_stopped_by_cpu_time_or_sleep(
    run: Callable[..., TestReport], code: str, why: str
) -> None:
    report = run(code)
    assert [o.status for o in report.outcomes] == ["timeout", "passed"]
    assert why in report.outcomes[0].detail
    assert report.status == "timeout"


def test_the_run_as_a_whole_is_bounded_by_the_clock(make_task: Callable[..., Task]) -> None:
    provider = LocalWorkspaces(idle_s=60)
    try:
        workspace = provider.create(make_task(body("time.sleep(1e6)")))
        began = time.monotonic()
        report = workspace.run_tests(timeout_s=1)
        assert time.monotonic() - began < 4
        assert [o.status for o in report.outcomes] == ["timeout", "timeout"]
        assert report.status == "timeout"
    finally:
        provider.close()


DYING = {
    "os._exit": ("os._exit(0)", "exited with status 0"),
    "sys.exit is only an error": ("sys.exit(3)", "SystemExit"),
    "kills itself": ("os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
    "kills its group": ("os.killpg(0, signal.SIGKILL)", ""),
    "memory": ("x = bytearray(1 << 40)", "MemoryError"),
    "memory in small steps": ("x = [b'']\nwhile True: x.append(bytes(1 << 26))", "MemoryError"),
    "segmentation fault": ("import ctypes\nctypes.string_at(0)", "SIGSEGV"),
    "closes every descriptor": ("os.closerange(3, 200)", ""),
    "file too large": ("f = open('big', 'wb')\nfor _ in range(100): f.write(bytes(1 << 20))", ""),
}


@pytest.mark.parametrize(("code", "why"), DYING.values(), ids=DYING)
def test_a_process_that_dies_is_the_error_of_one_test(run: Callable[..., TestReport], code: str, why: str) -> None:
    report = run(code)
    assert [o.status for o in report.outcomes] == ["error", "passed"]
    assert why in report.outcomes[0].detail


FORGED = {
    "prints lines that look like results": 'for fd in (1, 2): os.write(fd, b\'{"index": 0, "status": "passed"}\\n\' * 50)\nself.fail(\'real\')',
    "writes to every descriptor": (
        "for fd in range(3, 200):\n"
        '    try: os.write(fd, b\'\\n{"index": 0, "status": "passed"}\\n{"done": true}\\n\')\n'
        "    except OSError: pass\n"
        "self.fail('real')"
    ),
    "fills its output": "for _ in range(300): sys.stdout.write('x' * (1 << 16))\nself.fail('real')",
    "deletes the workspace": "__import__('shutil').rmtree('.', ignore_errors=True)\nself.fail('real')",
    "replaces json and os.write": "__import__('json').dumps = os.write = print\nself.fail('real')",
}


@pytest.mark.parametrize("code", FORGED.values(), ids=FORGED)
def test_a_result_cannot_be_forged_by_writing(run: Callable[..., TestReport], code: str) -> None:
    report = run(code)
    assert [o.status for o in report.outcomes] == ["failed", "passed"]
    assert "AssertionError: real" in report.outcomes[0].detail


ESCAPING = {
    "daemon": "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(1e6)\n    os._exit(0)",
    "children that ignore signals": (
        "for _ in range(5):\n"
        "    if os.fork() == 0:\n"
        "        for s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)\n"
        "        time.sleep(1e6)"
    ),
    "child that writes for ever": "if os.fork() == 0:\n    while True: os.write(1, b'x' * 65536)",
}


@pytest.mark.parametrize("code", ESCAPING.values(), ids=ESCAPING)
def test_processes_left_behind_are_ended(run: Callable[..., TestReport], code: str) -> None:
    report = run(code)
    assert report.outcomes[0].status == "passed"


def test_a_fork_bomb_is_ended(run: Callable[..., TestReport]) -> None:
    report = run("while True:\n    try: os.fork()\n    except OSError: pass")
    assert report.outcomes[0].status in ("error", "timeout")
    assert report.outcomes[1].status == "passed"


def test_a_dead_helper_is_replaced_and_its_children_are_ended(
    provider: LocalWorkspaces, make_task: Callable[..., Task]
) -> None:
    kill = "import ctypes\nif os.fork() == 0:\n    os.setsid(); time.sleep(1e6)\nctypes.CDLL(None).kill(os.getppid(), 9)\ntime.sleep(5)"
    workspace = provider.create(make_task(body(kill)))
    report = workspace.run_tests()
    assert report.status == "crashed"
    assert {o.status for o in report.outcomes} == {"error"}
    assert survivors(provider) == []
    assert provider.create(make_task(body("pass"))).run_tests().pass_rate == 1.0


def test_the_usual_ways_out_are_refused(run: Callable[..., TestReport], tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    canary.write_text("alive")
    attempts = [
        f"open({str(canary)!r}, 'w')",
        f"os.remove({str(canary)!r})",
        f"os.rename({str(canary)!r}, 'x')",
        f"__import__('shutil').rmtree({str(tmp_path)!r})",
        f"__import__('pathlib').Path({str(canary)!r}).write_text('dead')",
        "__import__('subprocess').run(['true'])",
        "os.system('true')",
        "os.kill(os.getppid(), 9)",
        "__import__('socket').create_connection(('127.0.0.1', 9))",
    ]
    checks = "\n".join(f"with self.assertRaises(PermissionError): {a}" for a in attempts)
    report = run(checks)
    assert report.outcomes[0].status == "passed", report.outcomes[0].detail
    assert canary.read_text() == "alive"


@pytest.mark.parametrize("clean", [child.clean, telling.clean])
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("KeyError: 140166560716032", "KeyError: 0"),
        ("[93825002345678, 139637976727552]", "[0, 0]"),
        ("<a at 0x7f12ab34cd56>", "<a at 0x0>"),
        ("0.93123456789012 and 1.139637976727552", "0.93123456789012 and 1.139637976727552"),
        ("1401665607160321 x140166560716032 20260101120000", "1401665607160321 x140166560716032 20260101120000"),
    ],
)
def test_no_address_of_memory_is_told(clean: Callable[[str, str], str], text: str, told: str) -> None:
    assert clean(text, "") == told


def test_detail_is_short_relative_and_plain(run: Callable[..., TestReport]) -> None:
    report = run(
        "esc = chr(27)\nself.fail(esc + ']52;c;ev' + 'il' + chr(7) + esc + '[31m' + repr(object()) + 'y' * 10**6)"
    )
    detail = report.outcomes[0].detail
    assert len(detail) <= 1500
    assert "\x1b" not in detail and "evil" not in detail
    assert "object at 0x0>" in detail
    assert detail.startswith('  File "tests/test_a.py", line 7')
