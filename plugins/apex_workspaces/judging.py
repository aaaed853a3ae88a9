"""What of a workspace may stand beside the tests that decide: files that steer tests come from the task, not from who is judged.

A run is a judgement when the caller brings the test files (``overlay``) that are run. Everywhere else a developer's own
``conftest.py`` counts as it is.
"""

from __future__ import annotations

import fnmatch
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

Item = TypeVar("Item")

_STEERING: Final = frozenset(
    (
        *("conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg"),
        *("pyproject.toml", "sitecustomize.py", "usercustomize.py", "pyvenv.cfg"),
    )
)
_ENDINGS: Final = (".pth", ".pyc", ".pyo", ".egg-link")
_FOLDERS: Final = (".egg-info", ".dist-info")
_TEST_FOLDERS: Final = frozenset(("test", "tests", "testing"))
# A repository may well have a folder "test" of its own.
_SHADOWED: Final = (sys.stdlib_module_names - {"test"}) | {
    *("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "exceptiongroup", "tomli", "pygments"),
    *("sitecustomize", "usercustomize", "coverage", "hypothesis", "nose", "distutils", "imp"),
}


@dataclass(frozen=True, slots=True)
class Rules:
    """What a task says of it, see ``Recipe``. ``always``: whatever is brought decides."""

    visible: Collection[str] = ()
    path: Collection[str] = (".",)
    fixed: Collection[str] = ()
    free: Collection[str] = ()
    always: bool = False


def laid_over(
    present: Mapping[str, Item],
    base: Mapping[str, Item],
    brought: Mapping[str, Item],
    tests: Collection[str] | None,
    rules: Rules,
) -> dict[str, Item]:
    """What a run sees: ``brought`` on top of ``present``, or of what of it may stand beside tests that decide."""
    if brought and (rules.always or _is_judgement(brought, tests, rules.visible)):
        present = judged(present, base, brought, rules)
    return {**_without_obstacles(present, brought), **brought}


def left_out(present: Mapping[str, Item], seen: Mapping[str, Item], brought: Collection[str]) -> tuple[str, ...]:
    """Names of files that a run does not see as they are."""
    names = sorted({*present, *seen}.difference(brought))
    return tuple(name for name in names if present.get(name) != seen.get(name))


def _is_judgement(overlay: Collection[str], tests: Collection[str] | None, visible: Collection[str]) -> bool:
    """Whether the caller brings test files that are run: those of ``tests``, or without any named, of the ``visible`` ones."""
    if tests is not None:
        return any(test.partition("::")[0] in overlay for test in tests)
    return any(name == part or name.startswith(f"{part.rstrip('/')}/") for name in overlay for part in visible)


def judged(
    present: Mapping[str, Item], base: Mapping[str, Item], overlay: Collection[str], rules: Rules
) -> dict[str, Item]:
    """``present`` with what steers tests as it is in ``base``; what is not there is left out. ``overlay`` is still to come."""
    searched = {"" if part == "." else f"{part.rstrip('/')}/" for part in rules.path}
    # pytest puts the folder of a test on the search path, or the first above it that is no package.
    above = {name[: at + 1] for name in overlay for at in range(len(name)) if name[at] == "/"} | {""}
    searched |= {folder for folder in above if f"{folder}__init__.py" not in base}
    taken = {folder: _names(base, folder) for folder in searched}
    stems = tuple(name.removesuffix(".py") for name in overlay if name.endswith(".py"))

    def steers(name: str) -> bool:
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in rules.free):
            return False
        return (
            _steers(name)
            or _opens(name, above)
            or any(fnmatch.fnmatchcase(name, pattern) for pattern in rules.fixed)
            or any(name.startswith((f"{stem}/", f"{stem}.")) for stem in stems)
            or any(_shadows(name, folder, known) for folder, known in taken.items())
        )

    restored = {name: item for name, item in base.items() if steers(name)}
    kept = {name: item for name, item in present.items() if name in restored or not steers(name)}
    return {**_without_obstacles(kept, restored), **restored}


def _without_obstacles(files: Mapping[str, Item], coming: Collection[str]) -> dict[str, Item]:
    """``files`` without those in whose place, or below which, a folder or file of ``coming`` has to be."""
    folders = {name[:at] for name in coming for at in range(len(name)) if name[at] == "/"}
    return {
        name: item
        for name, item in files.items()
        if name not in folders and not any(name[:at] in coming for at in range(len(name)) if name[at] == "/")
    }


def _steers(name: str) -> bool:
    *folders, last = name.split("/")
    return (
        last in _STEERING
        or last.endswith(_ENDINGS + _FOLDERS)
        or any(part == "__pycache__" or part.endswith(_FOLDERS) for part in folders)
    )


def _opens(name: str, above: Collection[str]) -> bool:
    """Whether a package runs this first when a test that is brought is imported; a package of code is the patch's own."""
    folder, _, last = name.rpartition("/")
    tests = not _TEST_FOLDERS.isdisjoint(folder.split("/"))
    return tests and last.partition(".")[0] == "__init__" and f"{folder}/" in above


def _shadows(name: str, folder: str, known: Collection[str]) -> bool:
    """Whether an import of a module that is not the repository's would find this file instead."""
    if not name.startswith(folder):
        return False
    first = name[len(folder) :].partition("/")[0]
    module = first.partition(".")[0]
    return module in _SHADOWED and module not in known


def _names(base: Mapping[str, object], folder: str) -> frozenset[str]:
    """What can be imported from a folder of the base."""
    inside = (name[len(folder) :] for name in base if name.startswith(folder))
    return frozenset(name.partition("/")[0].partition(".")[0] for name in inside)
