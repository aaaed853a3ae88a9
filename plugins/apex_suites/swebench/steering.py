"""Which files of a patch a judging run takes from the base instead, because they steer tests; a verdict names them.

The rule is that of ``apex_workspaces``, which applies it and does not say to what. Plugins do not import each other, so it is
written down here once more; a test holds both to one answer.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import Final

_NAMES: Final = frozenset(
    (
        *("conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg"),
        *("pyproject.toml", "sitecustomize.py", "usercustomize.py", "pyvenv.cfg"),
    )
)
_ENDINGS: Final = (".pth", ".pyc", ".pyo", ".egg-link")
_FOLDERS: Final = (".egg-info", ".dist-info")
_TEST_FOLDERS: Final = frozenset(("test", "tests", "testing"))
_SHADOWED: Final = (sys.stdlib_module_names - {"test"}) | {
    *("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "exceptiongroup", "tomli", "pygments"),
    *("sitecustomize", "usercustomize", "coverage", "hypothesis", "nose", "distutils", "imp"),
}


def from_base(
    changed: Collection[str],
    base: Collection[str],
    brought: Collection[str],
    path: Collection[str],
    free: Collection[str],
) -> tuple[str, ...]:
    """Of the paths that a patch ``changed``, those that are as in ``base`` where the tests that were ``brought`` are run.

    ``path`` are folders that are searched for modules, ``free`` patterns of what may steer all the same.
    """
    above = {folder for name in brought for folder in _folders(name)} | {""}
    searched = {"" if part == "." else f"{part.rstrip('/')}/" for part in path}
    searched |= {folder for folder in above if f"{folder}__init__.py" not in base}
    stems = tuple(name.removesuffix(".py") for name in brought if name.endswith(".py"))

    def steers(name: str) -> bool:
        if any(fnmatchcase(name, pattern) for pattern in free):
            return False
        *folders, last = name.split("/")
        return (
            last in _NAMES
            or last.endswith(_ENDINGS + _FOLDERS)
            or any(part == "__pycache__" or part.endswith(_FOLDERS) for part in folders)
            or (last.partition(".")[0] == "__init__" and _is_tests(folders) and name[: -len(last)] in above)
            or any(name.startswith((f"{stem}/", f"{stem}.")) for stem in stems)
            or any(_shadows(name, folder, base) for folder in searched)
        )

    if not changed:
        return ()
    coming = {*brought, *(name for name in base if steers(name))}
    needed = {folder[:-1] for name in coming for folder in _folders(name)}
    return tuple(
        name
        for name in sorted(changed)
        if name not in brought
        and (steers(name) or name in needed or any(folder[:-1] in coming for folder in _folders(name)))
    )


def _folders(name: str) -> list[str]:
    """``a/b/c`` is in ``a/`` and ``a/b/``."""
    return [name[: at + 1] for at in range(len(name)) if name[at] == "/"]


def _is_tests(folders: Collection[str]) -> bool:
    return not _TEST_FOLDERS.isdisjoint(folders)


def _shadows(name: str, folder: str, base: Collection[str]) -> bool:
    """Whether an import of a module that is not the repository's would find this file instead."""
    if not name.startswith(folder):
        return False
    module = _module(name, folder)
    return module in _SHADOWED and not any(
        known.startswith(folder) and _module(known, folder) == module for known in base
    )


def _module(name: str, folder: str) -> str:
    return name[len(folder) :].partition("/")[0].partition(".")[0]
