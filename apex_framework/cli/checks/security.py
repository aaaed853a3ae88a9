"""Findings on what confines the code of tasks, tried out here, and on what runs at the start of every Python."""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterable, Iterator
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


def sandboxes(catalog: Catalog, name: str) -> Iterator[Finding]:
    """The level that a sandbox achieves here, how many attempts to get out it stops, and what it lacks."""
    what = f"sandbox {name}"
    try:
        sandbox: Sandbox = catalog.make("sandbox", name)
        status = sandbox.probe()
    except ApexError as error:
        yield Finding(what, Grade.OK, f"not here: {error.cause}", error.remedy)
        return
    held, out = status.held, ""
    if not held and status.level > Level.NONE:
        attempts = tried(sandbox)
        held = tuple(a.name for a in attempts if not a.out)
        names = [a.name for a in attempts if a.out]
        out = f"; lets out: {_some(names)}" if names else ""
    shown = f"{status.level.name}, stops {len(held)} of {in_all()} attempts{out}"
    if status.lacks:
        shown += f"; lacks: {_some(status.lacks)}"
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


def started_code(folders: Iterable[str] | None = None) -> Iterator[Finding]:
    """``.pth`` files with import lines: code that every start of this Python runs, whoever put it there."""
    found = []
    for folder in _site_folders() if folders is None else folders:
        for path in sorted(Path(folder).glob("*.pth")) if os.path.isdir(folder) else ():
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            if any(line.startswith(("import ", "import\t")) for line in lines):
                found.append(str(path))
    if found:
        remedy = "see that you know them; task code is started with -I -S, which reads none"
        yield Finding("code at every start", Grade.WARN, f".pth files with imports: {_some(found)}", remedy)
    else:
        yield Finding("code at every start", Grade.OK, "no .pth file imports anything")


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
