"""Workspaces of 1,000 files beside ``cp -r`` and ``rm -r``: create, fork, roll 20 changed files back, dispose.

Every round does each once, in turn, so that a slow moment hits all alike; ratios are medians of the rounds' ratios. Times are by
the clock, until the call returns: nothing is put off to later. ``checkout, first`` is a provider's first workspace of a repository,
which is fetched then; what it is measured against is the same copy.
"""

from __future__ import annotations

import functools
import os
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from ..errors import WorkspaceError
from ..interfaces import Task, WorkspaceProvider

FILES = 1000
CHANGED = 20
ROUNDS = 15
PEERS = {"create": "cp -r", "fork": "cp -r", "rollback": "cp -r", "dispose": "rm -r"}
BOUNDS = {"create": 1.0, "fork": 1.0, "rollback": 0.25, "dispose": 1.2}
"""What is promised of workspaces, with their folders in memory: the ratio to the peer is at most this."""
PROVIDERS = ("local", "checkout")


def run(args: Any = None) -> Iterator[dict[str, object]]:
    """Rows of bench ``workspaces``: median wall milliseconds and ratios. ``args.n`` is the number of rounds."""
    from ..git import Repository
    from ..plugins import load_plugins

    rounds = max(1, int(getattr(args, "n", None) or ROUNDS))
    make = load_plugins().catalog.make
    files = {f"pkg{i // 40:02}/sub{i % 4}/m{i:04}.py": f"VALUE = {i}\n" * 200 for i in range(FILES)}
    with tempfile.TemporaryDirectory(prefix="apex-bench-") as folder:
        source = Path(folder, "source")
        _write(source, files)
        repository = Repository.init(Path(folder, "repository"))
        commit = repository.snapshot(source, "base")
        repository.set_branch("main", commit)
        shared: dict[str, Any] = {"id": "bench/1", "suite": "bench", "split": "dev", "issue": "", "cluster": "bench"}
        tasks = {
            "local": Task(**shared, files=files, run={}),
            "checkout": Task(**shared, repo=str(repository.git_dir), base_commit=commit),
        }
        first = _first(lambda: make("workspace", "checkout"), tasks["checkout"], source, Path(folder), rounds)
        yield _row("checkout, first", "apex", "create", statistics.median(first[0]), "ms")
        yield _row("checkout, first", "apex", "create, ratio to cp -r", _ratio(*first), "")
        providers = {name: make("workspace", name) for name in PROVIDERS}
        try:
            times = _rounds(providers, tasks, source, Path(folder), rounds)
        finally:
            for provider in providers.values():
                provider.close()
    for (case, step), taken in times.items():
        contender = "apex" if case in PROVIDERS else case
        yield _row(case, contender, step, statistics.median(taken), "ms")
    for case in PROVIDERS:
        for step, peer in PEERS.items():
            ratio = _ratio(times[case, step], times[peer, "1,000 files"])
            yield _row(case, "apex", f"{step}, ratio to {peer}", ratio, "")


def _rounds(
    providers: dict[str, WorkspaceProvider], tasks: dict[str, Task], source: Path, folder: Path, rounds: int
) -> dict[tuple[str, str], list[float]]:
    times: dict[tuple[str, str], list[float]] = {}

    def timed(case: str, step: str, work: Callable[[], Any]) -> Any:
        begun = perf_counter()
        result = work()
        times.setdefault((case, step), []).append((perf_counter() - begun) * 1000)
        return result

    copy = folder / "copy"
    for number in range(rounds + 1):
        order = [*providers, ""]
        # Whoever writes first in a round finds the disk idle: each does in turn.
        for name in order[number % len(order) :] + order[: number % len(order)]:
            if not name:
                timed("cp -r", "1,000 files", lambda: _copy(source, copy))
                timed("rm -r", "1,000 files", lambda: subprocess.run(["rm", "-r", str(copy)], check=True))
                continue
            provider = providers[name]
            workspace = timed(name, "create", functools.partial(provider.create, tasks[name]))
            fork = timed(name, "fork", workspace.fork)
            _change(workspace.root)
            timed(name, "rollback", workspace.rollback)
            _same(workspace.root, source)
            timed(name, "dispose", workspace.dispose)
            fork.dispose()
        if not number:  # the first round fills the file cache and fetches the repository
            times.clear()
    return times


def _first(
    make: Callable[[], WorkspaceProvider], task: Task, source: Path, folder: Path, rounds: int
) -> tuple[list[float], list[float]]:
    """Milliseconds of a provider's first workspace, and of a copy after each."""
    taken, copied = [], []
    for _ in range(max(1, rounds // 3)):
        provider = make()
        try:
            begun = perf_counter()
            provider.create(task)
            taken.append((perf_counter() - begun) * 1000)
        finally:
            provider.close()
        begun = perf_counter()
        _copy(source, folder / "copy")
        copied.append((perf_counter() - begun) * 1000)
        shutil.rmtree(folder / "copy")
    return taken, copied


def _copy(source: Path, to: Path) -> None:
    _check_there(source)
    subprocess.run(["cp", "-r", str(source), str(to)], check=True)


def _check_there(source: Path) -> None:
    """Temporary folders are cleared by others now and then: what is measured against nothing is no number."""
    if len(_paths(source)) != FILES:
        raise WorkspaceError(
            f"{source} was removed or changed while it was measured", "set TMPDIR to a folder that nobody else clears"
        )


def _write(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def _paths(root: Path) -> list[Path]:
    return sorted(Path(folder, name) for folder, _, names in os.walk(root) for name in names)


def _change(root: Path) -> None:
    for path in _paths(root)[:: FILES // CHANGED]:
        path.write_text("changed\n")


def _same(one: Path, other: Path) -> None:
    """Raises RuntimeError when a roll-back did not bring back what was there."""
    _check_there(other)
    for ours, theirs in zip(_paths(one), _paths(other), strict=True):
        if ours.read_bytes() != theirs.read_bytes():
            raise RuntimeError(f"{ours} was not rolled back")


def _ratio(ours: list[float], theirs: list[float]) -> float:
    return round(statistics.median(a / b for a, b in zip(ours, theirs, strict=True)), 3)


def _row(case: str, contender: str, metric: str, value: float, unit: str) -> dict[str, object]:
    row = {"bench": "workspaces", "case": case, "contender": contender, "metric": metric}
    return {**row, "value": round(value, 3), "unit": unit}
