"""SWE-bench natively."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .episodes import imported
from .numbers import page_of

PLANTED = (
    ("0 of 25 solved", "9 of 25 solved"),
    ("more than 13.3 %", "more than 3.3 %"),
)
GIVEN = (
    "**102 of 103 instances behave**",
    "the same test logs of all 103, of 11 repositories: 309 of 309 verdicts",
    "14 of 103 still solve the task",
    "the same of 158 of Lite's other 167 instances of these repositories and of three more: **152 behave**",
    "| django/django | 44 of 44 | 44 |",
    "| mwaskom/seaborn | 4 of 4 | 4 |",
    "| psf/requests | 1 of 1 | 1 |",
    "| pydata/xarray | 3 of 3 | 3 |",
    "| pydicom/pydicom | 2 of 2 | 2 |",
    "| pylint-dev/astroid | 2 of 2 | 2 |",
    "| pylint-dev/pylint | 4 of 4 | 4 |",
    "| pytest-dev/pytest | 5 of 5 | 5 |",
    "| sphinx-doc/sphinx | 8 of 8 | 8 |",
    "| sqlfluff/sqlfluff | 2 of 2 | 2 |",
    "| sympy/sympy | 28 of 28 | 27 |",
    "| django__django-12915 | 1 |",
    "| psf__requests-3362 | 2 |",
    "| pydata__xarray-4094 | 3 |",
    "| django/django | 70 | 68 | 67 | 11133: `memoryview` has `__iter__` since Python 3.10, so what must fail passes |",
    "| marshmallow-code/marshmallow | 2 | 2 | 2 | |",
    "| pallets/flask | 3 | 3 | 3 | |",
    "| psf/requests | 5 | 5 | 1 | 2148, 2317 and 2674 ask hosts that are not there; in 863 nothing fails without the patch |",
    "| pvlib/pvlib-python | 5 | 0 | | the clone at hand lacked its largest files |",
    "| pydata/xarray | 2 | 2 | 2 | |",
    "| pydicom/pydicom | 3 | 3 | 3 | |",
    "| pylint-dev/astroid | 3 | 3 | 3 | |",
    "| pylint-dev/pylint | 2 | 2 | 2 | |",
    "| pytest-dev/pytest | 12 | 12 | 12 | |",
    "| sphinx-doc/sphinx | 8 | 8 | 8 | |",
    "| sqlfluff/sqlfluff | 3 | 3 | 3 | |",
    "| sympy/sympy | 49 | 47 | 46 | 11870: its tests came to no end in half an hour beside other work |",
    "In the 103rd,",
    "`swebench` 5.0.2, Linux x86-64",
    "Django's 6,000 files",
    "all 69 pass on gold",
    "failed it in 4 of 12 runs with Python 3.11 and our `PYTHONHASHSEED=0`, in 3 of 12 without that variable",
    "in 1 of 12 so with Python 3.9 and `--seed` 1 to 12;",
    "it failed in 3 of 3",
    "The 103 are those",
    "since Python 3.10",
    "at most 10 seconds a run",
    "55 minutes with two workers",
    "(median of an episode 37 s, the longest 575)",
    "no lift that 25 tasks could show",
)


def claims(home: Path) -> Iterator[str]:
    yield from _arms(home)


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
