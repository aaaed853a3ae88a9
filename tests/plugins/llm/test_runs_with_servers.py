"""``apex run`` as a process of its own with a live model server: one that dies, one that stalls, one that comes back."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from apex_framework.cli import boundary
from apex_framework.testing.servers import LoopbackServer, Model, OpenAIServer, Request, Wire

pytest.importorskip("aiohttp", reason="the extra [http] is not installed")

COMMAND = [sys.executable, "-m", "apex_framework"]
RUN = ["run", "--backend", "openai:tiny", "--real-time", "--workers", "1", "--no-baselines", "--controller", "single"]
MODEL = Model("tiny", context_tokens=100_000)


class Dying(OpenAIServer):
    """Answers so many calls; the next one resets its connection, and then nobody listens any more."""

    def __init__(self, calls: int) -> None:
        super().__init__(MODEL)
        self.left = calls

    async def answer(self, request: Request, wire: Wire) -> None:
        if request.method == "POST":
            if not self.left:
                wire.reset()
                assert self._stop is not None
                return self._stop.set()
            self.left -= 1
        await super().answer(request, wire)

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(RuntimeError):  # its loop has ended by itself
            super().__exit__(*error)


def environment(server: LoopbackServer, tmp_path: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("APEX_", "OPENAI_"))}
    return {**kept, "APEX_OPENAI_BASE_URL": server.url, "XDG_STATE_HOME": str(tmp_path / "state")}


def apex(*arguments: str, server: LoopbackServer, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*COMMAND, *arguments], env=environment(server, tmp_path), cwd=tmp_path, capture_output=True, text=True
    )
    assert "Traceback" not in done.stderr
    return done


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.slow
def test_a_server_dies_in_the_middle_and_the_run_is_resumed_when_it_is_back(tmp_path: Path) -> None:
    out = tmp_path / "r"
    with Dying(12) as server:  # the warm-up's five calls, and an episode and a part
        run = apex(*RUN, "--episodes", "4", "--out", "r", server=server, tmp_path=tmp_path)
    assert run.returncode == 4 and "apex resume r --retry-failed" in run.stderr
    records = lines(out / "episodes.jsonl")
    broken = [record for record in records if record["status"] == "infrastructure"]
    assert len(records) == 4 and 0 < len(broken) < 4
    for record in records:
        assert (record["status"] == "infrastructure") == (record["failed_calls"] == record["calls"])
    assert all("of " in record["reason"] and "circuit_open" in record["reason"] for record in broken[1:])
    (warm,) = [row for row in lines(out / "events.jsonl") if row["event"] == "BackendWarmed"]
    assert (warm["calls"], warm["failure"]) == (5, "")
    assert json.loads((out / "run.json").read_text())["models"]["openai:tiny"]["determinism"] == "seeded"
    metrics = {line["metric"] for line in lines(out / "metrics" / "metrics.jsonl")}
    assert metrics >= {"pool_acquire_ms", "pool_conn_in_use", "call_failures_total", "breaker_open_total"}

    early = apex("resume", "r", "--retry-failed", server=server, tmp_path=tmp_path)
    assert early.returncode == 3 and "Connection refused" in early.stderr
    assert lines(out / "episodes.jsonl") == records, "what could not be begun again is as it was"

    with OpenAIServer(MODEL, port=server.port) as back:
        again = apex("resume", "r", "--retry-failed", server=back, tmp_path=tmp_path)
    assert again.returncode == 0, again.stderr
    after = lines(out / "episodes.jsonl")
    assert [r["task_id"] for r in after] == [r["task_id"] for r in records]
    assert {record["status"] for record in after} == {"finished"}
    kept = [record for record in records if record["status"] != "infrastructure"]
    assert [r for r in after if any(r["task_id"] == k["task_id"] for k in kept)] == kept


@pytest.fixture
def stalling() -> Iterator[OpenAIServer]:
    """A server whose first answer never goes beyond its first token."""
    with OpenAIServer(Model("tiny", context_tokens=100_000, pause_s=3_600.0)) as server:
        yield server


@contextlib.contextmanager
def begun(server: OpenAIServer, tmp_path: Path, *settings: str) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """A run in a session of its own, in the middle of its first call; and what it says."""
    with subprocess.Popen(
        [*COMMAND, *RUN, "--episodes", "2", "--out", "r", "--set", "warm_calls=0", *settings],
        env=environment(server, tmp_path),
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        try:
            while not any(request.method == "POST" for request in server.requests):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    raise AssertionError(f"it ended with {process.wait(0.05)}: {process.stderr.read()}")
            yield process, process.stderr
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def alone(process: subprocess.Popen[str]) -> bool:
    """Whether nobody of its session is left."""
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.slow
def test_a_second_signal_ends_a_live_call_and_everybody_at_once(stalling: OpenAIServer, tmp_path: Path) -> None:
    with begun(stalling, tmp_path) as (process, told):
        process.send_signal(signal.SIGINT)
        next(line for line in told if "finishing the episodes" in line)
        process.send_signal(signal.SIGINT)
        said = told.read()
        assert process.wait(30) == 130 and "0 of 2 episodes are safe" in said and "Traceback" not in said
        assert alone(process) and stalling.broken_off >= 1
    with OpenAIServer(MODEL) as server:
        assert apex("resume", "r", server=server, tmp_path=tmp_path).returncode == 0
    assert [record["status"] for record in lines(tmp_path / "r" / "episodes.jsonl")] == ["finished"] * 2


@pytest.mark.slow
def test_a_first_signal_lets_the_live_call_end_by_its_own_deadline(stalling: OpenAIServer, tmp_path: Path) -> None:
    with begun(stalling, tmp_path, "--set", "idle_s=1", "--set", "call_retries=0") as (process, told):
        process.send_signal(signal.SIGINT)
        said = told.read()
        assert process.wait(30) == 130 and "1 of 2 episodes are safe" in said
        assert alone(process)
    (record,) = lines(tmp_path / "r" / "episodes.jsonl")
    assert record["status"] == "infrastructure" and "idle_timeout" in record["reason"]
    assert {row["failure"] for row in lines(tmp_path / "r" / "calls.jsonl")} <= {"idle_timeout", "circuit_open"}


@pytest.mark.parametrize(
    "bad",
    ["call_deadline_s=0", "call_deadline_s=inf", "idle_s=-1", "first_token_s=nan", "call_retries=x", "warm_calls=-1"],
)
def test_settings_of_calls_are_checked(bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert boundary.run([*RUN, "--set", bad, "--plan"]) == 2
    said = capsys.readouterr().err.splitlines()
    name = bad.partition("=")[0]
    assert f"--set {name}: {name}: " in said[0] and len(said) == 2
