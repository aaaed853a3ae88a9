"""Runs whose driver and workers are killed (SIGKILL) at random moments, and gone on with until all episodes are there.

Episodes are null ones: two agents pass a message to and fro through the whole of an episode, and nobody thinks. ``lost``
counts episodes that the driver had acknowledged and the folder does not hold, ``doubled`` lines of an episode that is there already,
``unlike`` lines that differ, times aside, from those of a run that nobody disturbed, ``stuck`` runs of
which a driver hung, or ended otherwise than by being killed or by finishing. All four must be 0.
"""

from __future__ import annotations

import functools
import json
import os
import queue
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..interfaces import EpisodeJob, EpisodeResult

KILLS = 20
SEEDS = 60
"""Episodes of each of two arms in one story."""
MESSAGES = 25
MOST_WAIT_S = 0.4
"""A victim is killed at a uniform moment up to this long after the last news."""
PATIENCE_S = 120.0
"""What a driver may take to say something, or to end: after that it hangs."""
MOST_STUCK = 3
"""Runs that get stuck before no further one is begun."""


def run(args: Any = None) -> Iterator[dict[str, object]]:
    """Rows of bench ``kills``. ``args.n`` is the number of kills (20), ``args.seed`` seeds their moments.

    ``args.seeds`` is the number of episodes of each of two arms in one run (60).
    """
    kills = int(getattr(args, "n", None) or KILLS)
    draw = random.Random(int(getattr(args, "seed", None) or 0))
    seeds = int(getattr(args, "seeds", None) or SEEDS)
    say = getattr(args, "say", None) or (lambda text: None)
    counts: Counter[str] = Counter(dict.fromkeys(("driver", "worker", "lost", "doubled", "unlike", "stuck"), 0))
    with tempfile.TemporaryDirectory(prefix="apex-kills-") as folder:
        calm = _Story(Path(folder) / "calm", draw, counts, 0, seeds)
        if trouble := calm.to_the_end():
            raise RuntimeError(f"{trouble}, and nobody had disturbed it")
        while counts["driver"] + counts["worker"] < kills and counts["stuck"] < MOST_STUCK:
            number = counts["stories"] + counts["stuck"] + 1
            story = _Story(Path(folder) / str(number), draw, counts, kills, seeds)
            if trouble := story.to_the_end():
                counts["stuck"] += 1
                say(trouble)
                continue
            counts["stories"] += 1
            say(f"{counts['stories']} runs, {counts['driver']} drivers and {counts['worker']} workers killed")
            counts["unlike"] += story.lines() != calm.lines()
            counts["episodes"] += len(story.lines())
    yield _row("kills of the driver", counts["driver"], "kills")
    yield _row("kills of a worker", counts["worker"], "kills")
    yield _row("runs brought to their end", counts["stories"], "runs")
    yield _row("episodes", counts["episodes"], "episodes")
    yield _row("episodes that failed with their workers and were run again", counts["again"], "episodes")
    for fault in ("lost", "doubled", "unlike", "stuck"):
        yield _row(fault, counts[fault], "violations")


class _Story:
    """One run, from its plan to its manifest, over as many drivers as it takes."""

    def __init__(
        self,
        path: Path,
        draw: random.Random,
        counts: Counter[str],
        kills: int,
        seeds: int,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._path, self._draw, self._counts, self._kills, self._seeds = path, draw, counts, kills, seeds
        self._patience_s = patience_s
        self._told: set[tuple[str, str, int]] = set()

    def to_the_end(self) -> str:
        """What a driver did that was neither killed nor done; empty when the run is complete."""
        while not (self._path / "DONE").exists() or self._failed():
            status = self._drive()
            self._check()
            if status not in (0, 4, -signal.SIGKILL):
                how = "hung" if status is None else f"ended with status {status}"
                return f"a driver {how}: {self._path.with_suffix('.err').read_text()[-500:]}"
        return ""

    def lines(self) -> list[dict[str, Any]]:
        """Lines of its episodes, times aside."""
        rows = map(json.loads, (self._path / "episodes.jsonl").read_text(encoding="utf-8").splitlines())
        return [{key: value for key, value in row.items() if not key.endswith("_ms")} for row in rows]

    def _drive(self) -> int | None:
        """A driver's exit status; None when it hung."""
        command = [sys.executable, "-c", f"from {__name__} import drive; drive()", str(self._path), str(self._seeds)]
        errors = self._path.with_suffix(".err")  # workers that lose their driver complain on their way out
        with (
            errors.open("w") as talk,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=talk, text=True) as driver,
        ):
            news: queue.Queue[str] = queue.Queue()
            assert driver.stdout is not None
            reader = threading.Thread(target=_hear, args=(driver.stdout, news.put), daemon=True)
            reader.start()
            try:
                self._disturb(driver, news)
                status = driver.wait(self._patience_s)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                driver.kill()
            reader.join()
            while not news.empty():
                self._take(news.get())
        return status

    def _disturb(self, driver: subprocess.Popen[str], news: queue.Queue[str]) -> None:
        """Kill workers, and at last the driver, for as long as kills are left. Raises TimeoutExpired when it says nothing."""
        first = True
        while self._counts["driver"] + self._counts["worker"] < self._kills and driver.poll() is None:
            deadline = time.monotonic() + (self._patience_s if first else self._draw.uniform(0.0, MOST_WAIT_S))
            while (left := deadline - time.monotonic()) > 0 and driver.poll() is None:
                try:
                    self._take(news.get(timeout=min(left, 0.05)))
                except queue.Empty:
                    continue
                if first:
                    break
            else:
                if first and driver.poll() is None:
                    raise subprocess.TimeoutExpired(driver.args, self._patience_s)
            if first:
                first = False
                continue
            workers = _children(driver.pid)
            if workers and self._draw.random() < 0.5:
                os.kill(self._draw.choice(workers), signal.SIGKILL)
                self._counts["worker"] += 1
                continue
            if driver.poll() is None:
                driver.send_signal(signal.SIGKILL)
                self._counts["driver"] += 1
            return

    def _take(self, line: str) -> None:
        arm, task, seed = json.loads(line)
        self._told.add((arm, task, seed))

    def _check(self) -> None:
        text = (self._path / "episodes.jsonl").read_text(encoding="utf-8") if self._told else ""
        whole = text[: text.rfind("\n") + 1].splitlines()
        keys = [(row["arm"], row["task_id"], row["seed"]) for row in map(json.loads, whole)]
        self._counts["lost"] += len(self._told - set(keys))
        self._counts["doubled"] += len(keys) - len(set(keys))

    def _failed(self) -> bool:
        """Whether episodes failed because their workers were killed twice; they are forgotten, to be run again."""
        failed = [row for row in self.lines() if row["status"] == "infrastructure"]
        self._counts["again"] += len(failed)
        self._told -= {(row["arm"], row["task_id"], row["seed"]) for row in failed}
        return bool(failed)


def drive() -> None:
    """A driver: go on with the run whose folder is the program's first argument (the second: episodes per arm), and say what is durable."""
    from ..episode.arm import Arm
    from ..experiment.artifacts import RunFolder
    from ..experiment.manifest import DONE
    from ..experiment.plan import Plan, PlannedTask
    from ..experiment.run import Runner
    from ..plugins import load_plugins

    path, seeds = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else SEEDS
    arms = Arm("one"), Arm("other")
    plan = Plan("bench_null", "dev", "none", (PlannedTask(str(MESSAGES)),), arms, seeds=tuple(range(seeds)))
    executor = load_plugins().catalog.make("executor", "local")
    new = not (path / "run.json").exists()
    with RunFolder.create(path, plan) if new else RunFolder.reopen(path, retry_failed=(path / DONE).exists()) as folder:

        def tell(result: EpisodeResult) -> None:
            record = result.record
            print(json.dumps([record["arm"], record["task_id"], record["seed"]]), flush=True)

        outcome = Runner(folder, executor, null_episode, workers=2, on_result=tell).run()
    sys.exit(outcome.exit_status)


def null_episode(job: EpisodeJob) -> EpisodeResult:
    """An episode without thought, in a worker."""
    return _null()(job)


@functools.cache
def _null() -> Callable[[EpisodeJob], EpisodeResult]:
    from .overhead import null_jobs

    return null_jobs()


def _hear(lines: Any, put: Callable[[str], None]) -> None:
    for line in lines:
        if line.endswith("\n"):  # a line that a kill tore was not said
            put(line)


def _children(pid: int) -> list[int]:
    """Processes that a process started, where the system tells (Linux)."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _row(metric: str, value: float, unit: str) -> dict[str, object]:
    row: dict[str, object] = {"bench": "kills", "case": "kill -9 of drivers and workers", "contender": "apex"}
    return row | {"metric": metric, "value": value, "unit": unit}
