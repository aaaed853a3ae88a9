"""The real thing: a durable session under SIGKILL, and ``apex run`` under the signals that people and systems send."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

HERE = Path(__file__).parent

LIFE = """
import asyncio, json, logging, os, sys
from pathlib import Path
folder, here, steps = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
sys.path.insert(0, here)
import durable_office
from durable_office import DurableOffice, Tools, ToolResult
logging.disable(logging.CRITICAL)

class Sink(Tools):
    '''Effects are lines of a file; ``put`` looks whether its key is there already.'''
    async def call(self, call):
        if call.tool == "sink.look":
            return ToolResult(True, {"lines": len(lines())})
        if call.tool == "sink.fire" or call.key not in {line.split()[0] for line in lines()}:
            with open(folder / "sink", "a") as sink:
                sink.write(f"{call.key or '-'} {call.arguments['text']}\\n")
        return ToolResult(True)

def lines():
    try:
        return (folder / "sink").read_text().splitlines()
    except FileNotFoundError:
        return []

durable_office.Tools = Sink

async def work(me, message, context):
    left = int(message.payload.get("left", steps))
    await context.use("sink.look")
    assert (await context.use("sink.put", text=f"put-{me.id}-{message.msg_id}")).ok
    fired = await context.use("sink.fire", text=f"fire-{me.id}-{message.msg_id}")
    me.state["doubts"] = me.state.get("doubts", 0) + (fired.error == "E_IN_DOUBT")
    for audience in ({"a": "b", "b": "c", "c": "a"}[me.id], "a+b")[: 1 + (left % 4 == 0)] if left else ():
        me.state["sent"] = me.state.get("sent", 0) + 1
        rest = left - 1 if audience != "a+b" else 0
        await context.send(audience, {"left": rest, "text": f"{me.id}{me.state['sent']}"})

async def main():
    office = DurableOffice(folder / "journal", None, dict.fromkeys("abc", work), compact_bytes=20_000)
    end = await office.work()
    print(json.dumps([end.status, end.steps, office.states, office.log.compactions]))

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_ten_kills_and_no_message_lost_none_repeated_all_in_order(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    command = [sys.executable, "-c", LIFE, str(tmp_path), str(HERE), "400"]
    kills = 0
    while kills < 10:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        grown = (tmp_path / "sink").stat().st_size if (tmp_path / "sink").exists() else -1
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and process.poll() is None:
            if (tmp_path / "sink").exists() and (tmp_path / "sink").stat().st_size > grown:
                break
            time.sleep(0.005)
        time.sleep(rng.random() * 0.08)
        if process.poll() is not None:
            break
        process.kill()
        process.wait()
        kills += 1
        assert process.stdout is not None
        process.stdout.close()
    last = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    status, steps, states, _ = json.loads(last.stdout)
    sink = Counter(line.split()[1] for line in (tmp_path / "sink").read_text().splitlines())
    handled = sum(len(state["handled"]) for state in states.values())
    doubts = sum(state.get("doubts", 0) for state in states.values())
    assert kills == 10 and status == "quiet" and steps == handled > 400
    assert max(sink.values()) == 1
    assert sum(text.startswith("put") for text in sink) == handled
    assert handled - doubts <= sum(text.startswith("fire") for text in sink) <= handled
    for state in states.values():
        for sender in "abc":
            numbers = [
                int(line.split(sender)[-1]) for line in state["handled"] if line.startswith(f"{sender}: {sender}")
            ]
            assert numbers == sorted(set(numbers))


HEARS = """
import signal
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # who runs the tests in the background ignores these two
signal.signal(signal.SIGINT, signal.default_int_handler)
from apex_framework.cli import main
raise SystemExit(main())
"""


def begin(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HEARS, "run", "--no-baselines", "--episodes", "5",
               "--workers", "1", "--out", str(folder)]  # fmt: skip
    env = {**os.environ, "XDG_STATE_HOME": str(folder.parent)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        file = folder / "episodes.jsonl"
        if file.exists() and file.stat().st_size:
            time.sleep(0.3)  # between two episodes nothing is in flight, and a first signal ends the run at once
            return process
        time.sleep(0.01)
    process.kill()
    raise AssertionError(f"no episode finished: {process.communicate()[0]}")


def intact(folder: Path) -> int:
    """Lines of a run folder, all of them whole."""
    count = 0
    for file in folder.rglob("*.jsonl"):
        text = file.read_text()
        assert not text or text.endswith("\n"), file
        count += sum(isinstance(json.loads(line), dict) for line in text.splitlines())
    return count


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signals", "status"),
    [
        ((signal.SIGINT,), 130),
        ((signal.SIGTERM,), 143),
        ((signal.SIGHUP,), 129),
        ((signal.SIGINT, signal.SIGINT), 130),
        ((signal.SIGTERM, signal.SIGHUP), 143),
    ],
    ids=lambda value: "+".join(s.name for s in value) if isinstance(value, tuple) else str(value),
)
def test_f53_a_signal_ends_a_run_with_its_status_whole_lines_and_a_way_on(
    tmp_path: Path, signals: tuple[signal.Signals, ...], status: int
) -> None:
    folder = tmp_path / "run"
    process = begin(folder)
    for number in signals:
        process.send_signal(number)
        time.sleep(0.05)
    shown, _ = process.communicate(timeout=60)
    assert process.returncode == status, shown
    assert "Traceback" not in shown
    before = intact(folder)
    assert before > 0
    resumed = subprocess.run(
        [sys.executable, "-m", "apex_framework", "resume", str(folder)],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert resumed.returncode == 0, resumed.stderr
    assert intact(folder) >= before
