"""What a repository that cannot run code costs: clone, check-out, commit and diff, beside git as everybody runs it.

A repository of 1,000 files in 50 folders and 20 commits of 20 files each, made anew; rounds are interleaved. Ours reads no
configuration of the source and verifies that a clone holds no object beyond its commit; plain git does neither.
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from ..git import Repository

FILES, FOLDERS, COMMITS, CHANGED = 1000, 50, 20, 20
ROUNDS = 5


def run(args: Any = None) -> Iterator[dict[str, object]]:
    """Rows of bench ``git``: median wall milliseconds and ratios. ``args.n`` is the number of rounds."""
    rounds = max(1, int(getattr(args, "n", None) or ROUNDS))
    rng = random.Random(int(getattr(args, "seed", None) or 0))
    with tempfile.TemporaryDirectory(prefix="apex-bench-") as place:
        source = Path(place) / "source"
        _make(source, rng)
        times: dict[tuple[str, str], list[float]] = {}
        for number in range(rounds + 1):
            for key, taken in _round(Path(place) / f"round{number}", source, rng):
                if number:  # the first round fills the file cache
                    times.setdefault(key, []).append(taken)
            shutil.rmtree(Path(place) / f"round{number}")
    medians = {key: statistics.median(values) for key, values in times.items()}
    for key, median in medians.items():
        yield _row(*key, "median", round(median, 1), "ms")
    for case, contender in medians:
        if contender == "apex":
            yield _row(case, contender, "ratio to git", round(medians[case, "apex"] / medians[case, "git"], 2), "")


def _round(place: Path, source: Path, rng: random.Random) -> Iterator[tuple[tuple[str, str], float]]:
    place.mkdir()
    ours, folder, theirs = place / "ours.git", place / "ours", place / "theirs"
    folder.mkdir()
    yield ("clone", "git"), _ms(lambda: _git(place, "clone", "-q", "-n", "--no-local", str(source), str(theirs)))
    yield ("clone", "apex"), _ms(lambda: Repository.clone(source, ours))
    made = Repository(ours)
    yield ("check-out", "git"), _ms(lambda: _git(theirs, "checkout", "-q", "HEAD"))
    yield ("check-out", "apex"), _ms(lambda: made.check_out("main", folder))
    for number in rng.sample(range(FILES), CHANGED):
        for root in (theirs, folder):
            (root / _path(number)).write_text("changed\n" * 20)
    base = made.commit_of("main")
    commits = []
    yield ("commit", "git"), _ms(lambda: _git(theirs, "add", "-A") + _git(theirs, "commit", "-qm", "x"))
    yield ("commit", "apex"), _ms(lambda: commits.append(made.snapshot(folder, "x", (base,))))
    yield ("diff", "git"), _ms(lambda: _git(theirs, "diff", "HEAD~1", "HEAD"))
    yield ("diff", "apex"), _ms(lambda: made.diff(base, commits[0]))


def _make(source: Path, rng: random.Random) -> None:
    source.mkdir()
    _git(source, "init", "-q")
    for number in range(FILES):
        path = source / _path(number)
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"value_{number}_{rng.random()} = {line}\n" for line in range(40)))
    for number in range(COMMITS):
        for file in rng.sample(range(FILES), CHANGED) if number else ():
            (source / _path(file)).write_text(f"{rng.random()}\n" * 40)
        _git(source, "add", "-A")
        _git(source, "commit", "-qm", f"commit {number}")


def _path(number: int) -> str:
    return f"d{number % FOLDERS}/m{number}.py"


def _git(folder: Path, *arguments: str) -> bytes:
    who = ["-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0", "-c", "commit.gpgSign=false"]
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    return subprocess.run(["git", *who, *arguments], cwd=folder, env=env, check=True, capture_output=True).stdout


def _ms(work: Callable[[], object]) -> float:
    begun = perf_counter()
    work()
    return (perf_counter() - begun) * 1000


def _row(case: str, contender: str, metric: str, value: float, unit: str) -> dict[str, object]:
    return {"bench": "git", "case": case, "contender": contender, "metric": metric, "value": value, "unit": unit}
