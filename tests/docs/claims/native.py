"""SWE-bench natively."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .episodes import imported, kept_lines
from .numbers import WORDS, page_of

PLANTED = (
    ("0 of 25 solved", "9 of 25 solved"),
    ("more than 13.3 %", "more than 3.3 %"),
    ("309 of 309 verdicts", "308 of 309 verdicts"),
    ("| sympy/sympy | 28 of 28 |", "| sympy/sympy | 27 of 28 |"),
    ("18 tests of PASS_TO_PASS", "17 tests of PASS_TO_PASS"),
    ("| psf/requests | 5 | 5 | 1 |", "| psf/requests | 5 | 5 | 2 |"),
)
GIVEN = (
    "`swebench` 5.0.2, Linux x86-64",
    "Django's 6,000 files",
    "all 69 pass on gold",
    "failed it in 4 of 12 runs with Python 3.11 and our `PYTHONHASHSEED=0`, in 3 of 12 without that variable",
    "in 1 of 12 so with Python 3.9 and `--seed` 1 to 12;",
    "it failed in 3 of 3",
    "The 103 are those",
    "| 11133: `memoryview` has `__iter__` since Python 3.10",
    "| 2148, 2317 and 2674 ask hosts that are not there; in 863 nothing fails",
    "Once before, 17139 behaved, and 11870 did not come to its end",
    "at most 10 seconds a run",
    "55 minutes with two workers",
    "(median of an episode 37 s, the longest 575)",
    "no lift that 25 tasks could show",
)
Found = Sequence[Mapping[str, Any]]


def claims(home: Path) -> Iterator[str]:
    yield from _arms(home)
    listed = kept_lines("again/native-checks.jsonl.gz")
    yield from _listed(listed)
    yield from _others(kept_lines("again/native-others.jsonl.gz"), {_repository(one) for one in listed})
    yield from _official(kept_lines("again/native-official.jsonl.gz"))


def _arms(home: Path) -> Iterator[str]:
    kept = imported("native", home)
    yield from kept.lines(page_of("native"))
    tasks = len(kept.solved("single"))
    (high,) = {kept.arm(arm)[2] for arm in kept.data.arms}
    (solved,) = {sum(kept.solved(arm).values()) for arm in kept.data.arms}
    yield f"Four arms on {tasks} of the tasks ({len(kept.rows)} episodes, exploratory): **{solved} of {tasks} solved by each**,"
    yield f"says that none solves more than {high} % (95 %)."
    clusters = len({row.cluster for row in kept.rows})
    yield f"Holm p: of sign flips of {clusters} clusters, two-sided, {len(kept.holm)} at once"
    yield f"All {len(kept.rows)} episodes end with work"
    yield f"## Four arms on {tasks} tasks"


def _listed(found: Found) -> Iterator[str]:
    """What ``apex suite check`` said of each instance that the page began with."""
    by, behave = Counter(map(_repository, found)), Counter(_repository(one) for one in found if one["behaves"])
    yield f"**{behave.total()} of {by.total()} instances behave**"
    yield " ".join(f"| {name} | {count} of {count} | {behave[name]} |" for name, count in sorted(by.items()))
    for one in sorted(found, key=lambda one: str(one["task"])):
        if one["left_out"]:
            yield f"| {one['task']} | {len(one['left_out'])} |"


def _others(found: Found, known: set[str]) -> Iterator[str]:
    """Of Lite's other instances those that were asked about to the end."""
    by, behave = Counter(map(_repository, found)), Counter(_repository(one) for one in found if one["behaves"])
    asked = Counter(_repository(one) for one in found if not one["infrastructure_error"])
    yield (
        f"asked the same of {asked.total()} of Lite's other {by.total()} instances of these repositories and of {WORDS[len(set(by) - known)]} more: "
        f"**{behave.total()} behave**."
    )
    for name, count in sorted(by.items()):
        yield f"| {name} | {count} | {asked[name]} |" + (f" {behave[name]} |" if asked[name] else "")
    left_out = [one for one in found if one["behaves"] and one["left_out"]]
    yield f"In {len(left_out)} of those that behave, {sum(len(one['left_out']) for one in left_out)} tests of PASS_TO_PASS are left out"


def _official(found: Found) -> Iterator[str]:
    """What ``apex suite check --official`` said of each patch."""
    tasks = {one["task"] for one in found}
    equal = sum(bool(one["equal"]) for one in found)
    yield (
        f"test logs of all {len(tasks)}, of {len(set(map(_repository, found)))} repositories: {equal} of {len(found)} verdicts (gold, empty, damaged patch) are equal"
    )
    damaged = sum(one["patch"] == "damaged" and one["theirs"] == "resolved" for one in found)
    yield f"without the lines that it adds: {damaged} of {len(tasks)} still solve the task"


def _repository(one: Mapping[str, Any]) -> str:
    owner, _, rest = str(one["task"]).partition("__")
    return f"{owner}/{rest.rpartition('-')[0]}"
