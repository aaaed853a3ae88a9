"""Findings on the installation: extras, plugins, folders, and the configuration in force."""

from __future__ import annotations

import importlib.metadata
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...catalog import Catalog
from ...errors import ApexError
from ...experiment.resume import RUNS
from ...interfaces import Finding, Grade
from ...plugins import OWN_DISTRIBUTION, Plugins
from .guarded import failed

if TYPE_CHECKING:
    from ...config import Configuration, Settings

LEAST_DISK: Final = 1 << 30
"""Bytes below which a folder is nearly full."""
_NOT_FOR_USERS: Final = frozenset({"all", "dev"})


def extras(catalog: Catalog | None) -> Iterator[Finding]:
    """Each extra of the distribution: its packages with their versions, or how to get them and what would use them."""
    try:
        metadata = importlib.metadata.metadata(OWN_DISTRIBUTION)
        requirements = importlib.metadata.requires(OWN_DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        yield Finding("extras", Grade.WARN, f"{OWN_DISTRIBUTION} is not installed as a package", "pip install .")
        return
    for extra in sorted(set(metadata.get_all("Provides-Extra") or ()) - _NOT_FOR_USERS):
        yield _extra(extra, requirements, catalog)


def _extra(extra: str, requirements: list[str], catalog: Catalog | None) -> Finding:
    wanted = re.compile(rf"extra\s*==\s*['\"]{re.escape(extra)}['\"]")
    have, lack = [], []
    for requirement in requirements:
        head, _, marker = requirement.partition(";")
        system = re.search(r"platform_system\s*==\s*['\"](\w+)['\"]", marker)
        if not wanted.search(marker) or (system is not None and system[1] != platform.system()):
            continue
        name = re.split(r"[^A-Za-z0-9._-]", head.strip(), maxsplit=1)[0]
        try:
            have.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            lack.append(name)
    what = f"extra [{extra}]"
    if not lack:
        return Finding(what, Grade.OK, ", ".join(have))
    users = sorted(e.name for e in catalog.entries() if e.requires == extra) if catalog is not None else []
    shown = f"not installed ({', '.join(lack)})" + (f"; for {', '.join(users)}" if users else "")
    return Finding(what, Grade.OK, shown, f"pip install '{OWN_DISTRIBUTION}[{extra}]'")


def plugins(loaded: Plugins) -> Iterator[Finding]:
    """The plugins that work, and each that does not."""
    records = loaded.report.plugins
    good = [p for p in records if p.status not in ("BROKEN", "blocked")]
    blocked = [p for p in records if p.status == "blocked"]
    left = f"; left out: {', '.join(f'{p.name} ({p.error})' for p in blocked)}" if blocked else ""
    yield Finding("plugins", Grade.OK, f"{len(good)} loaded, {len(loaded.catalog.entries())} names{left}")
    for record in loaded.report.broken:
        where = f" ({record.distribution} {record.version})" if record.distribution else ""
        remedy = f"report this to its author, or leave it out: -p no:{record.name}"
        yield Finding(f"plugin {record.name}", Grade.FAIL, f"BROKEN{where}: {record.error}", remedy)


def folders(runs: Path = RUNS) -> Iterator[Finding]:
    """Where runs, state, caches and workspaces are written: whether that can be done. Nothing is left there."""
    import platformdirs

    state = Path(platformdirs.user_state_dir(OWN_DISTRIBUTION, appauthor=False))
    cache = Path(platformdirs.user_cache_dir(OWN_DISTRIBUTION))
    yield _folder("runs folder", runs.absolute(), Grade.FAIL, "go to another folder, or name one: --out")
    yield _folder("state folder", state, Grade.FAIL, "set XDG_STATE_HOME to a folder that can be written to")
    yield _folder("cache folder", cache, Grade.WARN, "set XDG_CACHE_HOME to a folder that can be written to")
    try:
        temporary = Path(tempfile.gettempdir())
    except OSError as error:
        yield Finding("workspaces", Grade.FAIL, str(error.strerror or error), "set TMPDIR to a folder")
        return
    yield _folder("workspaces", temporary, Grade.FAIL, "set TMPDIR to a folder that can be written to")


def _folder(what: str, path: Path, worst: Grade, remedy: str) -> Finding:
    there = next((p for p in (path, *path.parents) if p.exists()), Path("/"))
    new = "" if there == path else " (would be made)"
    if not there.is_dir():
        return Finding(what, worst, f"{path}: {there} is a file", remedy)
    try:
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(b"x")
            file.flush()
        free = shutil.disk_usage(there).free
    except OSError as error:
        return Finding(what, worst, f"{path}{new}: {error.strerror or error}", remedy)
    shown = f"{path}{new}, {free / 1e9:.1f} GB free"
    if free < LEAST_DISK:
        return Finding(what, Grade.WARN, shown, "make room")
    return Finding(what, Grade.OK, shown)


def configuration(found: Configuration, path: Path | None, catalog: Catalog | None) -> Iterator[Finding]:
    """The file in force, what is set besides it, and whether every name in it is one."""
    origins = {n: o for n, o in found.origins.items() if o != "default"}
    shown = f"{path}" if path is not None else "no file"
    shown += f"; set: {', '.join(f'{n} ({o})' for n, o in sorted(origins.items()))}" if origins else "; all is default"
    yield Finding("configuration", Grade.OK, shown)
    if catalog is not None:
        yield from names(found.settings, catalog)


def names(settings: Settings, catalog: Catalog) -> Iterator[Finding]:
    """Every plugin that the settings name: whether there is one, and whether it has what it needs."""
    named = [
        ("suite", settings.suite),
        ("team", settings.team),
        ("lane", settings.lane),
        ("transport", settings.transport),
        *([("workspace", settings.workspace)] if settings.workspace != "auto" else []),
        ("executor", settings.executor),
        *(("llm_backend", name) for name in sorted(set(settings.backend.values()))),
        *(("topology", name) for name in settings.topology_set),
        *(("controller", name) for name in settings.controllers),
        *(("budget_scope", name) for name in settings.scopes),
        *(("policy", name) for name in settings.policies),
        *(("interceptor", name) for name in settings.interceptors),
        *(("tool", name) for name in settings.tools),
        *([("tool", "mcp")] if settings.mcp_servers else []),
        *(("exporter", name) for name in settings.exporters),
    ]
    for kind, name in named:
        try:
            entry = catalog.entry(kind, name)
        except ApexError as error:
            yield failed("configuration", error)
            continue
        if entry.status != "ok":
            package = entry.owner.distribution or OWN_DISTRIBUTION
            remedy = f"pip install '{package}[{entry.requires}]'"
            yield Finding("configuration", Grade.FAIL, f"{kind} {entry.name} {entry.status}", remedy)
