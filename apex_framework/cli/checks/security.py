"""Findings on what confines the code of tasks, tried out here, and on what runs at the start of every Python."""

from __future__ import annotations

import importlib.machinery
import os
import site
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from ...catalog import Catalog
from ...episode.confining import AUTO, PLAIN, Demand, choose
from ...errors import ApexError
from ...interfaces import Finding, Grade, Level, Sandbox
from ...scripts.sandbox_probes import in_all, tried

TRYING_S: Final = 300.0
"""Seconds that the attempts of one sandbox may take."""
_SHOWN: Final = 6
_STARTING: Final = ("PYTHONSTARTUP", "PYTHONPATH", "PYTHONHOME", "PYTHONINSPECT", "PYTHONBREAKPOINT", "PYTHONUSERBASE")


def sandboxes(catalog: Catalog, name: str) -> Iterator[Finding]:
    """The level that a sandbox achieves here, how many attempts to get out it stops, and what it lacks."""
    what = f"sandbox {name}"
    try:
        sandbox: Sandbox = catalog.make("sandbox", name)
        status = sandbox.probe()
    except ApexError as error:
        yield Finding(what, Grade.OK, f"not here: {error.cause}", error.remedy)
        return
    attempts = tried(sandbox) if status.level > Level.NONE else ()
    names = [a.name for a in attempts if a.out]
    out = f"; lets out: {_some(names)}" if names else ""
    shown = f"{status.level.name}, stops {len(attempts) - len(names)} of {in_all()} attempts{out}"
    if status.lacks:
        shown += f"; lacks: {_some(status.lacks)}"
    if names and status.level > Level.RLIMITS:
        yield Finding(what, Grade.WARN, shown, "the level is what its plugin says of itself: do not rely on it")
    else:
        yield Finding(what, Grade.WARN if status.level is Level.NONE else Grade.OK, shown)


def in_force(catalog: Catalog, asked: str = AUTO, *, allow_weaker: bool = False) -> Iterator[Finding]:
    """What confines a run, by whose code it is, with these settings."""
    own = choose(catalog, asked, Demand(), allow_weaker=True)
    shown = f"{own.name} ({own.status.level.name})"
    yield Finding("code of suites", Grade.WARN if own.weaker else Grade.OK, shown)
    what = "code of live models and foreign repositories"
    demand = Demand(Level.LANDLOCK, what)
    strong = choose(catalog, asked, demand, allow_weaker=True)
    shown = f"{strong.name} ({strong.status.level.name})"
    if not strong.weaker:
        yield Finding(what, Grade.OK, f"confined by default: {shown}")
    elif allow_weaker:
        yield Finding(what, Grade.WARN, f"allowed in {shown}, which does not hold it", "leave out allow_weaker_sandbox")
    else:
        remedy = "install bubblewrap, or use a kernel with Landlock"
        yield Finding(what, Grade.WARN, f"refused: the strongest here is {shown}", remedy)


def started_code(
    folders: Iterable[str] | None = None,
    *,
    path: Iterable[str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Iterator[Finding]:
    """Code that every start of this Python runs, whoever put it there: what is listed is read, never imported.

    ``.pth`` files with import lines, ``sitecustomize`` and ``usercustomize``, and variables that put code or folders first.
    """
    found = [f"{file} ({_printable(lines[0].strip()[:40])})" for file, lines in _importing(folders)]
    remedy = "see that you know them; task code is started with -I -S, which reads none"
    if found:
        yield Finding("code at every start", Grade.WARN, f".pth files with imports: {', '.join(found)}", remedy)
    else:
        yield Finding("code at every start", Grade.OK, "no .pth file imports anything")
    modules = [found for name in ("sitecustomize", "usercustomize") for found in _modules(name, path)]
    if modules:
        yield Finding("modules at every start", Grade.WARN, _some(modules), remedy)
    else:
        yield Finding("modules at every start", Grade.OK, "no sitecustomize, no usercustomize")
    given = os.environ if environ is None else environ
    variables = [f"{name}={_printable(given[name])}" for name in _STARTING if given.get(name)]
    if variables:
        remedy = "leave them unset, or see that nobody else can write there"
        yield Finding("variables of Python", Grade.WARN, _some(variables), remedy)
    else:
        yield Finding("variables of Python", Grade.OK, f"none of {', '.join(_STARTING)} is set")


def _importing(folders: Iterable[str] | None) -> Iterator[tuple[Path, list[str]]]:
    """``.pth`` files that hold code, with its lines."""
    for folder in _site_folders() if folders is None else folders:
        for file in sorted(Path(folder).glob("*.pth")) if os.path.isdir(folder) else ():
            try:
                text = file.read_text(encoding="utf-8-sig", errors="replace")
            except OSError as error:
                yield file, [f"cannot be read: {error.strerror}"]
                continue
            if lines := [line for line in text.splitlines() if line.startswith(("import ", "import\t"))]:
                yield file, lines


def _modules(name: str, path: Iterable[str] | None) -> list[str]:
    """Files that ``import name`` would run: the first of the path, found without importing it."""
    try:
        spec = importlib.machinery.PathFinder.find_spec(name, [*(sys.path if path is None else path)])
    except (ImportError, ValueError, OSError) as error:
        return [f"{name}: {type(error).__name__}"]
    return [str(spec.origin or name)] if spec is not None else []


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)[:200]


def names(catalog: Catalog) -> list[str]:
    """Every sandbox, the usual one last."""
    return [*sorted(set(catalog.names("sandbox")) - {PLAIN}), *({PLAIN} & set(catalog.names("sandbox")))]


def _site_folders() -> list[str]:
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return sorted({*site.getsitepackages(), *user, *(p for p in sys.path if p.endswith("site-packages"))})


def _some(texts: Iterable[str]) -> str:
    every = list(texts)
    more = f" and {len(every) - _SHOWN} more" if len(every) > _SHOWN else ""
    return ", ".join(every[:_SHOWN]) + more
