"""A workshop: one source with its cases, where faults are tried and kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from apex_framework.ports import rng

from .cases import HIDDEN, VISIBLE, render_tests, test_id
from .faults import Fault, find_faults, mutate
from .inputs import Case, make_cases
from .laboratory import Failure, Laboratory, Trial
from .operators_other import CATALOGUE
from .sources import Repository
from .text import SourceText

MOST_VISIBLE, MOST_HIDDEN = 9, 30
FAILING_VISIBLE, FAILING_HIDDEN = 3, 12
LONGEST_FUNCTION = 110
FEWEST_CASES = 24
STEPS = 20_000
"""Most traced lines of one case of an original."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Faults that the tests see."""

    faults: tuple[Fault, ...]
    changed: Mapping[str, str]
    failures: Mapping[int, Failure]

    @property
    def in_vocabulary(self) -> bool:
        """Whether the embedded solver has an operator for each fault."""
        return all(f.in_vocabulary for f in self.faults)


class Workshop:
    """Tries faults on one repository. ``recorder`` asks originals, under another hash seed. ``usable`` is false when too few cases are repeatable."""

    def __init__(self, repository: Repository, salt: str, recorder: Laboratory) -> None:
        self.repository = repository
        self.salt = salt
        self.texts = {p: SourceText(t) for p, t in repository.files.items()}
        self._covering: dict[tuple[str, int], frozenset[int]] = {}
        self.lab = Laboratory(hash_seed=2)
        self.cases, self.base = self._cases(recorder)
        self.reservoir: list[Kept] = []
        self.used: set[tuple[str, int]] = set()
        self._queues: dict[tuple[bool, bool], Iterator[Fault]] = {}
        self._tried: set[str] = set()

    def close(self) -> None:
        """End the laboratory."""
        self.lab.close()

    def _cases(self, recorder: Laboratory) -> tuple[tuple[Case, ...], Trial]:
        """Cases whose expectation the original gives and the copy gives again, in another process."""
        source = self.repository.source
        asked = make_cases(source, self.salt)
        answers = recorder.record(source.use, asked)
        cases = tuple(
            replace(c, mode=a["mode"], expected=a["expected"]) for c, a in zip(asked, answers, strict=True) if a
        )
        self.lab.load(self.repository, cases)
        first = self.lab.run({}, steps=STEPS, coverage=True)
        name, prelude = source.name, self.repository.prelude
        outcomes = self.lab.tests({}, {VISIBLE: render_tests(name, prelude, cases)}) if first.status == "ok" else {}
        dropped = {f.case for f in first.failures}
        dropped |= {n for n, c in enumerate(first.covered) if c["steps"] > STEPS // 2 or not c["entry"]}
        dropped |= {n for n, c in enumerate(cases) if outcomes.get(test_id(VISIBLE, name, c)) != "passed"}
        if dropped:
            cases = tuple(c for n, c in enumerate(cases) if n not in dropped)
            self.lab.load(self.repository, cases)
            first = self.lab.run({}, steps=STEPS, coverage=True)
        return cases, first

    @property
    def usable(self) -> bool:
        """Whether there are enough repeatable cases."""
        return self.base.status == "ok" and not self.base.failures and len(self.cases) >= FEWEST_CASES

    @property
    def steps(self) -> int:
        """Most traced lines that a case may use on a faulty copy."""
        return 2_000 + 4 * self.base.steps

    def covering(self, fault: Fault) -> frozenset[int]:
        """Cases that execute a line of the fault's function body."""
        where = (fault.path, fault.first)
        if where not in self._covering:
            self._covering[where] = frozenset(
                n
                for n, c in enumerate(self.base.covered)
                if any(fault.first < line <= fault.last for line in c["lines"].get(fault.path, ()))
            )
        return self._covering[where]

    def foreign(self, fault: Fault) -> frozenset[int]:
        """Visible cases that come by the fault but enter the package through another file."""
        return frozenset(
            n for n in self.covering(fault) if self.cases[n].visible and self.base.covered[n]["entry"] != fault.path
        )

    @cached_property
    def faults(self) -> tuple[Fault, ...]:
        """Every fault that visible and hidden cases come by, operators taking turns."""
        lines: dict[str, set[int]] = {}
        for covered in self.base.covered:
            for path, found in covered["lines"].items():
                lines.setdefault(path, set()).update(found)
        groups: dict[str, list[Fault]] = {}
        for path in sorted(lines):
            for fault in find_faults(path, self.texts[path], lines[path], CATALOGUE):
                seen = {self.cases[n].visible for n in self.covering(fault)}
                if len(seen) == 2 and fault.last - fault.first < LONGEST_FUNCTION:
                    groups.setdefault(fault.operator, []).append(fault)
        for name, group in groups.items():
            rng(self.salt, self.repository.source.name, "faults", name).shuffle(group)
        order = sorted(groups)
        rng(self.salt, self.repository.source.name, "operators").shuffle(order)
        most = max(map(len, groups.values()), default=0)
        return tuple(groups[name][n] for n in range(most) for name in order if n < len(groups[name]))

    def fresh(self, in_vocabulary: bool, wanted: frozenset[str], foreign: bool) -> Iterator[Fault]:
        """Untried faults of one vocabulary, those of ``wanted`` operators first; ``foreign``: met from other files."""
        pool = [f for f in self.faults if f.in_vocabulary == in_vocabulary and (not foreign or self.foreign(f))]
        pool.sort(key=lambda f: f.operator not in wanted)
        for fault in pool:
            if fault.key not in self._tried and (fault.path, fault.line) not in self.used:
                self._tried.add(fault.key)
                yield fault

    def attempt(self, faults: tuple[Fault, ...]) -> Kept | None:
        """The faults made and run: kept when visible and hidden cases fail and some visible ones still pass."""
        changed: dict[str, str] = {}
        for path in {f.path for f in faults}:
            changed[path] = mutate(self.texts[path], tuple(f for f in faults if f.path == path))
        trial = self.lab.run(changed, steps=self.steps)
        if trial.status != "ok" or any(" at 0x" in f.got for f in trial.failures):
            return None  # an address in an issue would be another one in the next process
        kept = Kept(faults, changed, {f.case: f for f in trial.failures})
        failing = {self.cases[n].visible for n in kept.failures}
        passing = sum(c.visible and n not in kept.failures for n, c in enumerate(self.cases))
        return kept if len(failing) == 2 and passing >= 3 else None

    def choose(self, kept: Kept, shown: frozenset[int]) -> tuple[tuple[Case, ...], tuple[Case, ...]]:
        """Visible and hidden cases of a task. Of the failing visible ones only ``shown`` may be among them.

        Passing cases that come by a faulty function are preferred to others.
        """
        near = frozenset().union(*(self.covering(f) for f in kept.faults))

        def pick(visible: bool, failing: int, most: int) -> tuple[Case, ...]:
            numbers = [n for n, c in enumerate(self.cases) if c.visible == visible]
            bad = [n for n in numbers if n in kept.failures and (n in shown or not visible)][:failing]
            good = sorted((n for n in numbers if n not in kept.failures), key=lambda n: (n not in near, n))
            return tuple(self.cases[n] for n in sorted((*bad, *good[: most - len(bad)])))

        return pick(True, FAILING_VISIBLE, MOST_VISIBLE), pick(False, FAILING_HIDDEN, MOST_HIDDEN)

    def confirmed(self, kept: Kept, visible: tuple[Case, ...], hidden: tuple[Case, ...]) -> bool:
        """Whether unittest sees what the trial saw, and another trial in another directory sees the same."""
        again = self.lab.run(kept.changed, steps=self.steps, elsewhere=True)
        if {f.case: f for f in again.failures} != dict(kept.failures):
            return False
        name, prelude = self.repository.source.name, self.repository.prelude
        files = {VISIBLE: render_tests(name, prelude, visible), HIDDEN: render_tests(name, prelude, hidden)}
        outcomes = self.lab.tests(kept.changed, files)
        position = {c.number: n for n, c in enumerate(self.cases)}
        return all(
            (outcomes.get(test_id(path, name, c)) == "passed") == (position[c.number] not in kept.failures)
            for path, cases in ((VISIBLE, visible), (HIDDEN, hidden))
            for c in cases
        )
