"""Generation: slots filled one after the other, so that fewer tasks are always the first of more."""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from apex_framework.errors import SuiteError
from apex_framework.ports import rng

from .cases import HIDDEN, VISIBLE, render_tests, test_id
from .families import next_task
from .inputs import Case
from .issue import issue_text
from .laboratory import Laboratory
from .plan import CROSS_FILE, SIZES, Slot, cap, slots
from .sources import TABLES, Repository, Source, build, hash_texts, originals, read_table
from .workshop import Kept, Workshop

GENERATOR = tuple(
    Path(__file__).with_name(f"{name}.py")
    for name in [
        "cases",
        "faults",
        "families",
        "generation",
        "imports",
        "inputs",
        "issue",
        "lab",
        "operators_known",
        "operators_other",
        "plan",
        "sources",
        "text",
        "workshop",
    ]
)
"""The files that decide what the tasks are."""

VERSION = 1
"""Raised when the same salt should give other tasks."""

STEP_BUDGET_FACTOR = 10
"""Traced lines that a test may use before it counts as endless, over the most that a fault was allowed."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A task as it is stored: what differs from its source, and its tests."""

    id: str
    source: str
    family: str
    issue: str
    edits: tuple[tuple[str, int, int, str], ...]
    """Path, first and last byte (exclusive) and new text of each change that makes the fault."""
    visible: str
    visible_ids: tuple[str, ...]
    hidden: str
    hidden_ids: tuple[str, ...]
    step_budget: int
    meta: Mapping[str, object]


class Generator:
    """Makes the tasks of one split. A context manager's job is done by ``drafts``: it ends every process."""

    def __init__(self, split: str, salt: str) -> None:
        self.split = split
        self.salt = salt
        self.table = read_table(split)
        self.missing: list[str] = []
        """Sources that this Python lacks or cannot repeat."""

    @cached_property
    def repositories(self) -> tuple[Repository, ...]:
        """Repositories of the sources that this Python has."""
        found = [(s, build(s)) for s in self.table]
        self.missing.extend(s.name for s, r in found if r is None)
        return tuple(r for _, r in found if r is not None)

    def digest(self) -> str:
        """Hash of the generator, the table, the salt, the exact Python and the sources."""
        parts = [
            f"mini {VERSION} {self.split} {self.salt}",
            f"{platform.python_implementation()} {sys.version_info} {sys.hexversion:x}",
            *(hashlib.sha256(p.read_bytes()).hexdigest() for p in [TABLES / f"{self.split}.toml", *GENERATOR]),
        ]
        for source in self.table:
            files = originals(source)
            parts.append(f"{source.name} {sorted(files)}")
            parts.extend(hashlib.sha256(path.read_bytes()).hexdigest() for _, path in sorted(files.items()))
        return hash_texts(parts)

    def drafts(self, limit: int, progress: Callable[[int, int], None] | None = None) -> Iterator[Draft]:
        """The first ``limit`` tasks of the split in order. Raises SuiteError when not enough can be made."""
        workshops: dict[str, Workshop] = {}
        counts = {r.source.name: 0 for r in self.repositories}
        ids: set[str] = set()
        made = 0
        recorder = Laboratory(hash_seed=1)
        try:
            for slot in slots(self.split, self.salt):
                if made >= limit:
                    return
                if slot.number > 3 * SIZES[self.split]:
                    raise SuiteError(
                        f"mini/{self.split} has only {made} of {limit} tasks on this Python",
                        "use CPython 3.11, 3.12 or 3.13 with its whole standard library",
                    )
                draft = self._fill(slot, workshops, counts, ids, recorder)
                if draft is not None:
                    made += 1
                    yield draft
                    if progress:
                        progress(made, limit)
        finally:
            recorder.close()
            for workshop in workshops.values():
                workshop.close()

    def _fill(
        self,
        slot: Slot,
        workshops: dict[str, Workshop],
        counts: dict[str, int],
        ids: set[str],
        recorder: Laboratory,
    ) -> Draft | None:
        """A task for a slot from the source that has fewest; the vocabulary gives way before the family does."""
        order = sorted(counts, key=lambda n: (counts[n], rng(self.salt, slot.number, n).random()))
        order = [n for n in order if counts[n] < cap(self.split)]
        by_name = {r.source.name: r for r in self.repositories}
        for in_vocabulary in (slot.in_vocabulary, not slot.in_vocabulary):
            for name in order:
                if name not in counts or (slot.family == CROSS_FILE and is_single(by_name[name])):
                    continue
                if name not in workshops:
                    workshops[name] = Workshop(by_name[name], self.salt, recorder)
                workshop = workshops[name]
                if not workshop.usable:
                    self.missing.append(name)
                    del counts[name]
                    continue
                found = next_task(workshop, slot.family, in_vocabulary)
                draft = self._draft(slot.family, workshop, *found) if found else None
                if draft is not None and draft.id not in ids:
                    ids.add(draft.id)
                    counts[name] += 1
                    return draft
        return None

    def _draft(self, family: str, workshop: Workshop, kept: Kept, shown: frozenset[int]) -> Draft | None:
        """The task of a kept fault; None when unittest does not confirm it."""
        visible, hidden = workshop.choose(kept, shown)
        if not workshop.confirmed(kept, visible, hidden):
            return None
        source = workshop.repository.source
        position = {c.number: n for n, c in enumerate(workshop.cases)}
        failing = [c for c in visible if position[c.number] in kept.failures]
        reported = [(c, kept.failures[position[c.number]]) for c in failing]
        key = hash_texts([source.name, *(f.key for f in kept.faults)])[:6]
        return Draft(
            id=f"{source.name}-{key}",
            source=source.name,
            family=family,
            issue=issue_text(source.name, family, reported, self.salt),
            edits=tuple((f.path, e.start, e.end, e.text) for f in kept.faults for e in f.edits),
            visible=render_tests(source.name, workshop.repository.prelude, visible),
            visible_ids=ids_of(VISIBLE, source, visible),
            hidden=render_tests(source.name, workshop.repository.prelude, hidden),
            hidden_ids=ids_of(HIDDEN, source, hidden),
            step_budget=workshop.steps * STEP_BUDGET_FACTOR,
            meta=self._meta(workshop, kept, failing),
        )

    def _meta(self, workshop: Workshop, kept: Kept, failing: list[Case]) -> dict[str, object]:
        """Facts for analysis."""
        sites = []
        for fault in kept.faults:
            texts = workshop.texts[fault.path]
            sites.append(
                {
                    "path": fault.path,
                    "function": fault.function,
                    "line": fault.line,
                    "function_lines": fault.last - fault.first + 1,
                    "operator": fault.operator,
                    "in_vocabulary": fault.in_vocabulary,
                    "original": [texts.line(n) for n in range(fault.line, fault.end_line + 1)],
                }
            )
        return {
            "operators": [f.operator for f in kept.faults],
            "in_vocabulary": kept.in_vocabulary,
            "sites": sites,
            "failing_visible": len(failing),
            "failing_hidden": sum(not workshop.cases[n].visible for n in kept.failures),
        }


def is_single(repository: Repository) -> bool:
    """Whether a repository has one file with code, so that no fault can lie across files."""
    return (
        sum(
            bool(text.strip()) and path.count("/") > 0 and path != f"{repository.source.package}/__init__.py"
            for path, text in repository.files.items()
        )
        < 2
    )


def ids_of(path: str, source: Source, cases: tuple[Case, ...]) -> tuple[str, ...]:
    """Test ids of cases in a file."""
    return tuple(test_id(path, source.name, c) for c in cases)
