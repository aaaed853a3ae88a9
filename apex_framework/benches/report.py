"""What the HTML report of a large run costs: ``apex report RUN --format html`` in a process of its own, and how that grows.

The run has twelve arms on tasks in clusters, two seeds each, ``-n`` episodes in all (10,000, rounded up to whole tasks), and
before it a tenth of them. A few true episodes of every arm (suite mini, embedded solver) are run once; their lines go under
other names through the writer of all run folders, with outcomes drawn with ``--seed`` and one episode in 400 as one that could
not be run. ``apex verify`` then reads the folder.

What it does not show: episodes are copies, so that tokens, steps and decisions of an arm take few values and messages are those
of a few modules; the folder was just written, so that it comes from memory and not from a cold disk; and the run belongs to no
experiment, whose decision ``apex report`` would make again besides. Processor time includes that of the start, and the wall time
whatever else the machine does: its load stands beside it. ``limit`` stands where there are 10,000
episodes: what is promised for them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..interfaces import EpisodeJob, EpisodeResult
from ..ports import rng

if TYPE_CHECKING:
    from ..experiment.plan import Plan, PlannedTask

EPISODES = 10_000
LIMIT_S = 30.0
"""Wall time that the page of so many episodes may take."""
ARMS = (
    *("bandit_v1", "static_star", "static_chain", "static_flat", "single", "linucb", "thompson", "per_episode"),
    *("phase_heuristic", "schedule:flat,flat,chain", "random_switch:0.22", "manager"),
)
"""Those of the headline run."""
SEEDS = (1, 2)
LEAST = 10 * len(ARMS) * len(SEEDS)
TRUE_TASKS = 3
"""Tasks that are really worked on, by every arm."""
PER_CLUSTER = 6
FAMILIES = ("clear_traceback", "misleading_traceback", "cross_file", "weak_issue", "no_traceback")
UNLIKE = 0.04
"""Share of episodes whose outcome is not the one that their task has in most."""
_SIDES = ("decisions", "switches", "calls", "events", "latency", "ops")
FAILED_OF = 400
"""One episode in so many could not be run."""

_TIMED = """
import json, os, sys, time
began = time.perf_counter()
process = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, used = os.wait4(process, 0)
wall = time.perf_counter() - began
print(json.dumps([os.waitstatus_to_exitcode(status), wall, used.ru_utime + used.ru_stime, used.ru_maxrss]))
"""
"""A process between: the peak of one that is started begins with that of its parent, and this one's is small."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process took; memory in MiB at its peak."""

    wall_s: float
    cpu_s: float
    peak_mib: float


def run(args: Any = None) -> Iterator[dict[str, object]]:
    """Rows of bench ``report``. ``args.n`` is the number of episodes (10,000), ``args.seed`` draws their outcomes (0).

    Raises UsageError for so few that their tenth would lack an arm.
    """
    episodes, seed = int(getattr(args, "n", None) or EPISODES), int(getattr(args, "seed", None) or 0)
    say = getattr(args, "say", None) or (lambda text: None)
    if episodes < LEAST:
        raise UsageError(f"bench report with {episodes} episodes", f"at least {LEAST}: a tenth of them has every arm")
    say(f"{TRUE_TASKS * len(ARMS)} true episodes")
    plan, originals = true_episodes()
    cpu = []
    for size in (episodes // 10, episodes):
        large = enlarged(plan, size)
        with tempfile.TemporaryDirectory(prefix="apex-report-") as folder:
            path = Path(folder) / "run"
            say(f"writing {large.size:,} episodes")
            write_run(path, large, originals, seed)
            say(f"the page of {large.size:,} episodes")
            rows = list(_rows(path, large.size))
        cpu += [(large.size, row["value"]) for row in rows if row["metric"] == "cpu"]
        yield from rows
    (few, cheap), (many, dear) = cpu
    yield _row("growth", "cpu per further episode", 1000 * (float(str(dear)) - float(str(cheap))) / (many - few), "ms")


def true_episodes() -> tuple[Plan, dict[str, list[EpisodeResult]]]:
    """The plan of the true episodes, and per arm what they came to. Raises RuntimeError where one could not be run."""
    from ..episode.arm import Arm
    from ..episode.episode import run_episode
    from ..experiment.arms import arm_named
    from ..experiment.planning import make_plan
    from ..plugins import load_plugins

    plugins = load_plugins()
    arms = [arm_named(name, Arm("base")) for name in ARMS]
    plan = make_plan(plugins, arms, suite="mini", split="dev", limit=TRUE_TASKS, seed=SEEDS[0])
    executor = plugins.catalog.make("executor", "local")
    found: dict[str, list[EpisodeResult]] = {name: [] for name in ARMS}
    with ExitStack() as stack:
        if hasattr(executor, "__enter__"):
            stack.enter_context(executor)
        for result in sorted(executor.run(plan.jobs(), run_episode, workers=2), key=lambda result: result.index):
            if result.record["status"] == "infrastructure":
                raise RuntimeError(f"a true episode could not be run: {result.record['reason']}")
            found[str(result.record["arm"])].append(result)
    return plan, found


def enlarged(plan: Plan, episodes: int) -> Plan:
    """The same plan of a suite that nobody has, with at least so many episodes, and a best static arm as from dev."""
    from ..experiment.plan import digest_of

    count = -(-episodes // (len(plan.arms) * len(SEEDS)))
    tasks = tuple(_task(number) for number in range(count))
    return replace(
        plan,
        suite="bench_report",
        split="test",
        suite_digest=digest_of([task.id for task in tasks]),
        tasks=tasks,
        limit=None,
        seeds=SEEDS,
        seed=SEEDS[0],
        settings={**plan.settings, "best_static": "static_star"},
    )


def _task(number: int) -> PlannedTask:
    from ..experiment.plan import PlannedTask

    cluster = f"module{number // PER_CLUSTER}"
    return PlannedTask(f"{cluster}-{number % PER_CLUSTER}", cluster, FAMILIES[number % len(FAMILIES)])


def write_run(path: Path, plan: Plan, originals: Mapping[str, Sequence[EpisodeResult]], seed: int) -> None:
    """A finished run folder of this plan, every episode one of its arm's ``originals`` under another name."""
    from ..experiment.artifacts import RunFolder
    from ..experiment.code import code_digests

    draw = rng("bench report", seed)
    solvable = {task.id: draw.random() < 0.3 for task in plan.tasks}
    tasks = {task.id: task for task in plan.tasks}
    with RunFolder.create(path, plan, command="apex bench report", code=code_digests()) as folder:
        for job in plan.jobs():
            success = solvable[job.task_id] != (draw.random() < UNLIKE)
            folder.add(_copy(originals[str(job.arm["name"])], tasks[job.task_id], job, success, draw))
        folder.finish()


def _copy(
    originals: Sequence[EpisodeResult], task: PlannedTask, job: EpisodeJob, success: bool, draw: Random
) -> EpisodeResult:
    """One of the arm's episodes with this outcome, or any where none has it, as the episode that the job asks for."""
    from ..interfaces import infrastructure_failure

    names = {"task_id": task.id, "seed": job.seed, "cluster": task.cluster, "family": task.family}
    fitting = [result for result in originals if result.record["success"] == success] or originals
    like = draw.choice(fitting)
    if draw.randrange(FAILED_OF) == 0:
        failed = infrastructure_failure(job, "bench report: drawn as one that could not be run")
        return replace(failed, record={**failed.record, **names})
    told = {"success": success, "visible_passed": success, "overfit": False, "suite_digest": job.run["suite_digest"]}
    sides: dict[str, Any] = {side: tuple(_renamed(row, names) for row in getattr(like, side)) for side in _SIDES}
    return replace(like, index=job.index, record={**like.record, **names, **told}, **sides)


def _renamed(row: Mapping[str, Any], names: Mapping[str, object]) -> Mapping[str, Any]:
    """The row of an episode with the names of another, where it tells any."""
    return {**row, **{name: value for name, value in names.items() if name in row}}


def _rows(path: Path, episodes: int) -> Iterator[dict[str, object]]:
    """What the page of a run folder took and holds, and what ``apex verify`` says of the folder."""
    case, page = f"{episodes:,} episodes", path.with_name("page.html")
    load = os.getloadavg()[0]
    cost = timed("report", str(path), "--format", "html", "--out", str(page))
    text = page.read_text(encoding="utf-8")
    yield _row(case, "wall", cost.wall_s, "s")
    if episodes >= EPISODES:
        yield _row(case, "wall", LIMIT_S, "s", "limit")
    yield _row(case, "cpu", cost.cpu_s, "s")
    yield _row(case, "cpu per episode", 1000 * cost.cpu_s / episodes, "ms")
    yield _row(case, "memory at the peak", cost.peak_mib, "MiB")
    yield _row(case, "load before it", load, f"of {os.cpu_count()} processors")
    yield _row(case, "page", page.stat().st_size / 1e6, "MB")
    yield _row(case, "episodes on the page", told_of(text), "episodes")
    yield _row(case, "figures on the page", text.count("<svg"), "figures")
    for side in ("decisions", "switches", "calls"):
        with (path / f"{side}.jsonl").open("rb") as lines:
            yield _row(case, side, sum(1 for _ in lines), "lines")
    files = [file for file in path.rglob("*") if file.is_file()]
    yield _row(case, "run folder", sum(file.stat().st_size for file in files) / 1e6, "MB")
    yield _row(case, "files", len(files), "files")
    yield _row(case, "damages that verify finds", damages(path), "damages")


def timed(*arguments: str) -> Cost:
    """What ``apex`` took with these arguments. Raises RuntimeError when it ends otherwise than with 0."""
    command = [sys.executable, "-S", "-c", _TIMED, sys.executable, "-m", "apex_framework", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    status, wall, cpu, peak = json.loads(done.stdout.splitlines()[-1])
    if status:
        raise RuntimeError(f"apex {arguments[0]} ended with status {status}: {done.stderr.strip()[-500:]}")
    return Cost(wall, cpu, peak / (2**20 if sys.platform == "darwin" else 1024))


def told_of(page: str) -> int:
    """Episodes that a whole page tells of; 0 for one that is cut short or tells of none."""
    found = re.search(r"\d seeds?, ([\d,]+) episodes\.", page)
    return int(found[1].replace(",", "")) if found and page.rstrip().endswith("</html>") else 0


def damages(path: Path) -> int:
    """What ``apex verify`` finds wrong in a run folder. Raises RuntimeError when it cannot tell."""
    command = [sys.executable, "-m", "apex_framework", "--json", "verify", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 5):
        raise RuntimeError(f"apex verify ended with status {done.returncode}: {done.stderr.strip()[-500:]}")
    return len(json.loads(done.stdout)["runs"][0]["damages"])


def _row(case: str, metric: str, value: float, unit: str, contender: str = "apex") -> dict[str, object]:
    row: dict[str, object] = {"bench": "report", "case": case, "contender": contender, "metric": metric}
    return row | {"value": round(value, 4), "unit": unit}
