"""Planted bugs: patches to the shipped source that each break one promise, to show that the simulation would notice.

A bug is data: a module, a text that stands in it exactly once, and what to put in its place. ``planted`` imports the
patched module, and all that builds on it, beside the real ones; nothing on disk is touched. A bug whose text does not
stand in the source any more raises StaleBugError: the patch has to follow the code.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

REBUILT = ("apex_framework.runtime", "apex_framework.budget", "apex_framework.testing", "apex_lanes")
"""Packages that are imported anew around a bug; contracts, errors and events stay the same objects."""


@dataclass(frozen=True)
class PlantedBug:
    """One bug: in ``module``, ``new`` stands for ``old``; ``breaks`` says what is wrong then."""

    name: str
    module: str
    old: str
    new: str
    breaks: str
    lane: str = "fifo"
    """The lane under which it shows."""


class StaleBugError(AssertionError):
    """The text that a bug replaces does not stand in the source exactly once."""


@dataclass(frozen=True)
class Caught:
    """How a bug was found: the invariant that named it first, and the number of seeds that took."""

    invariant: str
    seeds: int
    example: str


def hunt(bug: PlantedBug, *, seeds: int = 2000, seed: int = 0, steps: int = 200) -> Caught | None:
    """Simulate the patched code until something is broken; None when nothing is within so many seeds."""
    with planted(bug) as simulation:
        parts = simulation.default_parts(lane=bug.lane)
        for number in range(seeds):
            found = simulation.Simulation(seed + number, parts, steps=steps).run()
            if found.violations:
                return Caught(_first(found.examples, found.violations), number + 1, found.examples[0])
    return None


def _first(examples: Sequence[str], violations: Any) -> str:
    names: list[str] = [name for name in violations if f": {name}:" in examples[0]]
    return names[0] if names else str(violations.most_common(1)[0][0])


@contextmanager
def planted(bug: PlantedBug) -> Iterator[ModuleType]:
    """The module ``apex_framework.testing.simulation`` over the patched code, as long as the context lasts.

    Raises StaleBugError.
    """
    _code(bug)
    real = {name: module for name, module in sys.modules.items() if _rebuilt(name)}
    finder = _Finder(bug)
    for name in real:
        del sys.modules[name]
    sys.meta_path.insert(0, finder)
    try:
        yield import_module("apex_framework.testing.simulation")
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if _rebuilt(name)]:
            del sys.modules[name]
        sys.modules.update(real)
        for name, module in real.items():
            parent, _, child = name.rpartition(".")
            if parent:
                setattr(sys.modules[parent], child, module)


def _rebuilt(name: str) -> bool:
    return any(name == package or name.startswith(package + ".") for package in REBUILT)


def _code(bug: PlantedBug) -> CodeType:
    spec = PathFinder.find_spec(bug.module, import_module(bug.module.rpartition(".")[0]).__path__)
    if spec is None or not isinstance(spec.loader, SourceFileLoader):
        raise StaleBugError(f"planted bug {bug.name}: there is no module {bug.module}")
    return _Loader(bug, spec.loader).get_code(bug.module)


class _Finder(MetaPathFinder):
    def __init__(self, bug: PlantedBug) -> None:
        self._bug = bug

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._bug.module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(self._bug, spec.loader)
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, bug: PlantedBug, original: SourceFileLoader) -> None:
        super().__init__(original.name, original.path)
        self._bug = bug

    def get_code(self, fullname: str) -> CodeType:
        bug, source = self._bug, self.get_source(fullname) or ""
        if (found := source.count(bug.old)) != 1:
            raise StaleBugError(f"planted bug {bug.name}: its text stands {found} times in {bug.module}, not once")
        code: CodeType = compile(source.replace(bug.old, bug.new), self.path, "exec", dont_inherit=True)
        return code
