"""How strong a sandbox the code of a run's tasks needs, and which one is taken."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..catalog import Catalog
from ..errors import ApexError, MissingExtraError, SandboxError
from ..interfaces import Level, LLMBackend, Sandbox, SandboxStatus, Task
from ..plugins import OWN_DISTRIBUTION
from .arm import Arm

AUTO: Final = "auto"
PLAIN: Final = "plain"
"""The usual sandbox: resource limits, for code that its user would run anyway."""
_STRONGER: Final = "install bubblewrap or use a kernel with Landlock"
SETTINGS: Final = ("sandbox", "allow_weaker_sandbox", "sandbox_demand")
"""Keys of a run's settings that this module reads and writes, where they are not the usual ones."""
OWN_WORDS: Final = frozenset({"repair", "scripted"})
"""Backends of APEX that write nothing but what its solver derives or its user gave. A replayed answer is a live model's."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The least level, and whose code it is that makes it so."""

    level: Level = Level.RLIMITS
    reason: str = "code of the suite itself"


@dataclass(frozen=True, slots=True)
class Confining:
    """A sandbox that was chosen, what it achieves on this machine, and what was demanded of it."""

    name: str
    status: SandboxStatus
    demand: Demand
    tried: tuple[str, ...] = ()
    """Attempts to get out that a run has made itself, all of them stopped; the status is what the sandbox says."""

    @property
    def weaker(self) -> bool:
        """Whether less is achieved than demanded."""
        return self.status.level < self.demand.level

    def to_json(self) -> dict[str, Any]:
        """For run.json: names, levels, and what is lacking."""
        return {
            "name": self.name,
            "level": self.status.level.name,
            "demanded": self.demand.level.name,
            "for": self.demand.reason,
            "lacks": list(self.status.lacks),
            **({"tried": list(self.tried)} if self.tried else {}),
        }

    def __str__(self) -> str:
        lacks = ", ".join(self.status.lacks[:4]) + (" and more" if len(self.status.lacks) > 4 else "")
        return f"{self.name} achieves {self.status.level.name} here" + (f", it lacks {lacks}" if lacks else "")


def demand_of(arms: Iterable[Arm], tasks: Iterable[Task], catalog: Catalog) -> Demand:
    """What the tasks and whoever writes code for them make necessary.

    Files that a suite brings are its user's own choice. A repository is somebody else's code, and so is what a model
    writes: files, network and other processes must be held then. What an installed backend says of itself counts for
    nothing here; one that this process was given, and not a distribution brought, is believed to be deterministic.
    """
    if any(task.repo and not task.files for task in tasks):
        return Demand(Level.LANDLOCK, "code of foreign repositories")
    live = sorted(
        {name for arm in arms for name in arm.backends.values() if not _is_own(catalog, name, arm.backend_options)}
    )
    return Demand(Level.LANDLOCK, f"code that {live[0]} writes") if live else Demand()


def choose(catalog: Catalog, name: str, demand: Demand, *, allow_weaker: bool = False) -> Confining:
    """The sandbox of this name, or with ``auto`` the plain one where that is enough and the strongest elsewhere.

    Found by probing, which may take seconds. Raises SandboxError when less is achieved than demanded, unless
    ``allow_weaker``; UnknownNameError, PluginError.
    """
    if name != AUTO:
        names = [name]
    elif demand.level <= Level.RLIMITS:
        names = [PLAIN]
    else:
        known = set(catalog.names("sandbox"))
        names = [*sorted(known - {PLAIN}), *({PLAIN} & known)]
    best: Confining | None = None
    told: list[str] = []
    for candidate in names:
        try:
            status = _probe(catalog, candidate)
        except (SandboxError, MissingExtraError) as error:
            if name != AUTO:
                raise
            told.append(f"{candidate}: {error.cause}")
            continue
        if best is None or status.level > best.status.level:
            best = Confining(candidate, status, demand)
        if best.status.level is max(Level):
            break
    if best is None:
        raise SandboxError(f"no sandbox can be used: {'; '.join(told) or 'none is registered'}")
    if best.weaker and not allow_weaker:
        weak = demand.level <= Level.RLIMITS
        holds = "the memory and processor time" if weak else "files, network and processes"
        better = f"leave --sandbox out, or take --sandbox {PLAIN}" if weak else _STRONGER
        raise SandboxError(
            f"{demand.reason} needs a sandbox that holds {holds} ({demand.level.name}); {best}",
            f"{better}; or accept it: --allow-weaker-sandbox",
        )
    return best


def confined(
    settings: Mapping[str, Any], arms: Iterable[Arm], tasks: Iterable[Task], catalog: Catalog
) -> dict[str, Any]:
    """A run's settings with the sandbox that was chosen for it; the usual one is not mentioned. Raises as ``choose``."""
    demand = demand_of(arms, tasks, catalog)
    shared = {key: value for key, value in settings.items() if key not in SETTINGS}
    asked, allow = str(settings.get("sandbox", AUTO)), bool(settings.get("allow_weaker_sandbox", False))
    if asked in (AUTO, PLAIN) and demand.level <= Level.RLIMITS:
        return shared
    chosen = choose(catalog, asked, demand, allow_weaker=allow)
    if demand.level > Level.RLIMITS:
        shared["sandbox_demand"] = [demand.level.name, demand.reason]
    if chosen.weaker:
        shared["allow_weaker_sandbox"] = True
    return {**shared, "sandbox": chosen.name}


def confining_of(settings: Mapping[str, Any], catalog: Catalog) -> Confining:
    """What ``confined`` chose, and what it achieves on this machine now. Raises PluginError, SandboxError."""
    level, reason = settings.get("sandbox_demand", (Demand().level.name, Demand().reason))
    name, demand = str(settings.get("sandbox", PLAIN)), Demand(Level[level], reason)
    if name == PLAIN and PLAIN not in catalog.names("sandbox"):  # the suite's workspaces are all that there is
        return Confining("none", SandboxStatus(Level.NONE, ("every limit that APEX knows of",)), demand)
    return Confining(name, _probe(catalog, name), demand)


def sandbox_for(settings: Mapping[str, Any], catalog: Catalog) -> Sandbox | None:
    """The run's sandbox for workspaces; None for the usual one, which they bring themselves."""
    name = str(settings.get("sandbox", PLAIN))
    if name in (PLAIN, AUTO):
        return None
    made: Sandbox = catalog.make("sandbox", name)
    return made


@functools.lru_cache(maxsize=16)
def _probe(catalog: Catalog, name: str) -> SandboxStatus:
    try:
        status: SandboxStatus = catalog.make("sandbox", name).probe()
    except OSError as error:
        raise SandboxError(f"sandbox {name} cannot be tried: {error}") from error
    except ApexError as error:
        if error.exit_status == SandboxError.exit_status and not isinstance(error, MissingExtraError):
            raise SandboxError(f"sandbox {name}: {error.cause}", error.remedy) from error
        raise
    return status


def _is_own(catalog: Catalog, name: str, options: Mapping[str, Any]) -> bool:
    entry = catalog.entry("llm_backend", name)
    if entry.owner.distribution == OWN_DISTRIBUTION:
        return entry.name in OWN_WORDS
    if entry.owner.distribution != "":
        return False
    backend: LLMBackend = catalog.make("llm_backend", name, **options)
    return backend.capabilities.deterministic
