"""From a repository to tasks: faults are tried one after the other until enough are kept; each outcome is written down."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from apex_framework.errors import ApexError, GitError, SuiteError, UsageError
from apex_framework.git import Repository
from apex_framework.interfaces import WorkspaceProvider
from apex_framework.ports import SystemFiles, rng

from ..mini.faults import Fault, mutate
from ..mini.text import SourceText
from .hiding import function_of, functions_in, without
from .instance import Found, Writer
from .journal import Journal
from .trial import Baseline, Trial, faults_of

TRIALS_PER_TASK = 25
"""Most faults that are tried, for each task that is wanted."""
_FEWEST = 2
ENVIRONMENT = """# How the tests of these tasks are run: in the Python that runs apex. Add packages = ["name==version"] for another.
[[environment]]
repo = "{repo}"
runner = "pytest"
path = {path}
"""

Progress = Callable[[int, int, int], None]
"""Told how many tasks are made, how many are wanted, and how many faults were tried."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to make. ``repo`` is a folder or a bare clone; ``name`` stands in the column ``repo``. Paths are absolute."""

    repo: Path
    name: str
    out: Path
    commit: str = "HEAD"
    tests: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    count: int = 20
    seed: int = 0

    @property
    def repos(self) -> Path:
        """Folder of the bare repository that holds the tasks' base commits."""
        return self.out.with_name(f"{self.out.stem}.repos")

    @property
    def environment(self) -> Path:
        """What SWE-bench suites must know of the repository: how its tests are run."""
        return self.out.with_name(f"{self.out.stem}.environment.toml")

    @property
    def bare(self) -> Path:
        """That repository."""
        return self.repos / self.name.replace("/", "+")


@dataclass(frozen=True, slots=True)
class Made:
    """What came of it. ``reasons`` counts why faults were not kept."""

    tasks: int
    tried: int
    unstable_tests: int
    reasons: Mapping[str, int]


def make(wanted: Wanted, provider: WorkspaceProvider, progress: Progress) -> Made:
    """Write ``wanted.out``, whole or not at all; an interrupted call goes on where it was.

    Raises UsageError: the file is there already, another call is at it or was begun with other options, or ``wanted.repo`` is no
    repository; SuiteError when no test passes or no fault can be kept; WorkspaceError.
    """
    if wanted.out.exists():
        raise UsageError(f"{wanted.out} exists", "remove it, or choose another place: --out FILE")
    journal = wanted.out.with_name(f"{wanted.out.name}.making")
    for path in (wanted.repos, wanted.environment):
        if path.exists() and not journal.exists():
            raise UsageError(f"{path} exists", "remove it, or choose another place: --out FILE")
    try:
        wanted.out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{wanted.out.parent}: {error.strerror}", "choose another place: --out FILE") from error
    settings = asdict(wanted) | {"repo": str(wanted.repo), "out": wanted.out.name}
    with Journal(journal, {k: v if not isinstance(v, tuple) else list(v) for k, v in settings.items()}) as log:
        try:
            return _made(wanted, provider, log, progress)
        except ApexError as error:
            # Nothing was found out that another call could use, or there is nothing to find.
            if not log.done or isinstance(error, SuiteError):
                shutil.rmtree(wanted.repos, ignore_errors=True)
                wanted.environment.unlink(missing_ok=True)
                log.remove()
            raise


def _made(wanted: Wanted, provider: WorkspaceProvider, log: Journal, progress: Progress) -> Made:
    repository = _cloned(wanted)
    commit = repository.commit_of("main")
    path = [".", "src"] if any(e.path.startswith("src/") for e in repository.entries(commit)) else ["."]
    run = {"runner": "pytest", "tests": list(wanted.tests), "path": path}
    if not wanted.environment.exists():
        wanted.environment.write_text(ENVIRONMENT.format(repo=wanted.name, path=json.dumps(path)), encoding="utf-8")
    trial = Trial(provider, str(wanted.bare), commit, run)
    try:
        return _filled(wanted, trial, Writer(repository, wanted.name, commit), log, progress)
    finally:
        trial.close()


def _cloned(wanted: Wanted) -> Repository:
    """The repository at its commit; what a killed call left half-made is made again."""
    if not wanted.bare.exists():
        wanted.repos.mkdir(exist_ok=True)
        half = wanted.repos / ".half"
        shutil.rmtree(half, ignore_errors=True)
        try:
            Repository.clone(wanted.repo, half, wanted.commit, depth=1)
        except GitError as error:
            raise UsageError(error.cause, error.remedy) from error
        os.replace(half, wanted.bare)
    return Repository(wanted.bare)


def _filled(wanted: Wanted, trial: Trial, writer: Writer, log: Journal, progress: Progress) -> Made:
    baseline = trial.baseline()
    stable = log.known(baseline.stable)
    unstable = {*baseline.unstable, *(set(baseline.stable) - set(stable))}
    rows: list[dict[str, Any]] = []
    used: set[tuple[str, int]] = set()
    reasons: Counter[str] = Counter()
    tried = 0
    for fault, tests in _promising(trial, baseline, wanted):
        if len(rows) >= wanted.count or tried >= TRIALS_PER_TASK * wanted.count:
            break
        if (fault.path, fault.line) in used:
            continue
        tried += 1
        if fault.key not in log.done:
            log.add(fault.key, _tried(trial, writer, fault, [t for t in tests if t not in unstable], wanted.seed))
        outcome = log.done[fault.key]
        if new := set(outcome.get("unstable", ())) - unstable:
            unstable |= new
            rows = [kept for row in rows if (kept := _relieved(row, unstable))]
        if "row" in outcome:
            rows.append(outcome["row"])
            used.add((fault.path, fault.line))
        else:
            reasons[outcome["why"]] += 1
        progress(len(rows), wanted.count, tried)
    if not rows:
        why = "; ".join(f"{n} x {reason}" for reason, n in reasons.most_common(3)) or "no line that two tests come by"
        raise SuiteError(f"no fault out of {tried} makes a task: {why}", "more --tests, or another repository")
    SystemFiles().replace(wanted.out, "".join(json.dumps(row) + "\n" for row in rows).encode())
    log.remove()
    return Made(len(rows), tried, len(unstable), dict(reasons))


def _relieved(row: dict[str, Any], unstable: set[str]) -> dict[str, Any] | None:
    """A row that does not rely on tests found unstable after it was made; None when too little is left of it."""
    if unstable & set(json.loads(row["FAIL_TO_PASS"])):
        return None
    return {**row, "PASS_TO_PASS": json.dumps([t for t in json.loads(row["PASS_TO_PASS"]) if t not in unstable])}


def _promising(trial: Trial, baseline: Baseline, wanted: Wanted) -> Iterator[tuple[Fault, tuple[str, ...]]]:
    """Faults that two test functions come by, with all stable tests of the files that hold such tests."""
    for fault in faults_of(trial, baseline, wanted.sources, wanted.seed):
        lines = baseline.covered[fault.path]
        near = set().union(*(t for n, t in lines.items() if fault.first < n <= fault.last))
        if len({(t.partition("::")[0], function_of(t)) for t in near}) >= _FEWEST:
            files = {t.partition("::")[0] for t in near}
            yield fault, tuple(t for t in baseline.stable if t.partition("::")[0] in files)


@dataclass(frozen=True, slots=True)
class _No:
    """Why a fault is not kept, and the tests that were seen to be unstable."""

    why: str
    unstable: tuple[str, ...] = ()


def _tried(trial: Trial, writer: Writer, fault: Fault, tests: Sequence[str], seed: int) -> dict[str, Any]:
    """``row``, or ``why`` there is none."""
    found = _found(trial, fault, tuple(tests), seed)
    try:
        return {"row": writer.row(found)} if isinstance(found, Found) else asdict(found)
    except SuiteError as error:
        return asdict(_No(error.cause))


def _found(trial: Trial, fault: Fault, tests: tuple[str, ...], seed: int) -> Found | _No:
    """A fault worth keeping, or the reason why not.

    Kept are faults that tests see the same way twice, that leave some tests alone, and that fail at least two test functions:
    one of them stays for agents to see, another is taken away and comes back with the test patch.
    """
    faulty = {fault.path: mutate(SourceText(trial.text(fault.path)), (fault,))}
    first = trial.run(tests, faulty)
    if first.status != "finished" or any(o.status == "timeout" for o in first.outcomes):
        return _No("tests do not end")
    failing = {o.id: o.detail for o in first.outcomes if o.status != "passed"}
    functions = sorted({(t.partition("::")[0], function_of(t)) for t in failing})
    if len(functions) < _FEWEST:
        return _No("fewer than two test functions see it")
    again = trial.run(tests, faulty)
    sound = trial.sound(tests)
    differ = {a.id for a, b in zip(first.outcomes, again.outcomes, strict=True) if a.status != b.status}
    if unstable := differ | (set(tests) - sound):
        return _No("tests behave differently each time, or alone", tuple(sorted(unstable)))
    if len(failing) == len(tests):
        return _No("every test fails")
    texts = {path: trial.text(path) for path, _ in functions}
    removable = [
        (path, name) for path, name in functions if name in functions_in(texts[path]) and "\r" not in texts[path]
    ]
    rng(seed, "synth", fault.key, "hidden").shuffle(removable)
    hidden = removable[: len(functions) // 2]
    visible = [test for test in failing if (test.partition("::")[0], function_of(test)) not in hidden]
    if not hidden or not visible:
        return _No("none of the tests that see it can be hidden")
    left = {path: without(texts[path], {n for p, n in hidden if p == path}) for path in {p for p, _ in hidden}}
    seen = trial.run(visible, {**faulty, **left})
    told = {o.id: o.detail for o in seen.outcomes if o.status in ("failed", "error")}
    if set(told) != set(visible):
        return _No("without the hidden tests the others behave differently")
    shown = min(visible)
    return Found(
        fault.key,
        faulty,
        left,
        sorted(failing),
        sorted(t for t in tests if t not in failing),
        shown,
        told[shown],
    )
