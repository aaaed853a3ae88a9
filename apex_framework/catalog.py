"""The catalog: (kind, name) to a lazy factory, with its owner."""

from __future__ import annotations

import difflib
import importlib.metadata
import inspect
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .errors import ApexError, ConfigError, MissingExtraError, NameTakenError, PluginError, UnknownNameError
from .hookspecs import KINDS, Factory

_PROTOCOLS: dict[str, str] = {
    "topology": "Topology",
    "controller": "Controller",
    "budget_scope": "BudgetScope",
    "llm_backend": "LLMBackend",
    "tool": "ToolServer",
    "transport": "Transport",
    "policy": "Policy",
    "interceptor": "Interceptor",
    "store": "BlobStore",
    "lane": "LaneDiscipline",
    "team": "Team",
    "suite": "TaskSuite",
    "workspace": "WorkspaceProvider",
    "sandbox": "Sandbox",
    "executor": "Executor",
    "exporter": "Exporter",
    "report": "Report",
}

_ELSEWHERE = {"executor": "(pip install what brings another one: docs/cluster.md)"}
"""Kind -> where to look for what the bundled plugins do not bring."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class Owner:
    """The plugin that brings something: its name, and the distribution and version that it came with."""

    plugin: str
    distribution: str = ""
    version: str = ""

    def __str__(self) -> str:
        where = f" ({self.distribution} {self.version}".rstrip() + ")" if self.distribution else ""
        return f"{self.plugin}{where}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One named factory."""

    kind: str
    name: str
    factory: Factory
    summary: str
    requires: str
    """Extra of the owner's distribution that it needs; empty for none."""
    owner: Owner

    @property
    def status(self) -> str:
        """``ok``, or ``needs [extra]`` when a package of the extra is not installed."""
        if self.requires and not extra_installed(self.owner.distribution, self.requires):
            return f"needs [{self.requires}]"
        return "ok"


class Catalog:
    """Every named factory of every loaded plugin."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[str, Entry]] = {kind: {} for kind in KINDS}

    def add(
        self, kind: str, name: str, factory: Factory, *, summary: str = "", requires: str = "", owner: Owner
    ) -> None:
        """Register one factory. Raises NameTakenError, or PluginError for an impossible name or factory."""
        self.extend([checked_entry(kind, name, factory, summary, requires, owner)])

    def extend(self, entries: Iterable[Entry]) -> None:
        """Register all of these or none. Raises NameTakenError."""
        new: dict[tuple[str, str], Entry] = {}
        for entry in entries:
            taken = self._entries[entry.kind].get(entry.name) or new.get((entry.kind, entry.name))
            if taken is not None:
                raise NameTakenError(entry.kind, entry.name, taken.owner.plugin, entry.owner.plugin)
            new[entry.kind, entry.name] = entry
        for entry in new.values():
            self._entries[entry.kind][entry.name] = entry

    def kinds(self) -> tuple[str, ...]:
        """Every kind of plugin there is, in the order of the hooks."""
        return tuple(KINDS)

    def names(self, kind: str) -> tuple[str, ...]:
        """Registered names of a kind, sorted. Raises UnknownNameError for an unknown kind."""
        return tuple(sorted(self._of(kind)))

    def entries(self, kind: str | None = None) -> tuple[Entry, ...]:
        """Entries of one kind, or of all, sorted by name within a kind."""
        kinds = KINDS if kind is None else (kind,)
        return tuple(entry for k in kinds for _, entry in sorted(self._of(k).items()))

    def entry(self, kind: str, name: str) -> Entry:
        """The entry that a name (with or without options after a colon) stands for. Raises UnknownNameError."""
        known = self._of(kind)
        base = name.partition(":")[0]
        if base not in known:
            typo = difflib.get_close_matches(base, known, n=1)
            hint = "" if typo else _ELSEWHERE.get(kind, "")
            raise UnknownNameError(kind.replace("_", " "), base, known, hint)
        return known[base]

    def make(self, kind: str, name: str, **options: Any) -> Any:
        """A new object of this kind. ``name:text`` passes ``spec="text"`` to its factory.

        Raises UnknownNameError, ConfigError (an option does not fit), MissingExtraError, and PluginError, which
        names the plugin, when its factory fails or returns something that is not of this kind.
        """
        entry = self.entry(kind, name)
        _, colon, spec = name.partition(":")
        if colon:
            options["spec"] = spec
        made = _call(entry, options)
        if missing := missing_members(kind, made):
            raise PluginError(
                f"{kind} {entry.name!r} of plugin {entry.owner} made an object of type "
                f"{type(made).__name__}, which is no {_PROTOCOLS.get(kind, kind)}: it lacks {', '.join(missing)}",
                f"report this to its author, or leave it out: -p no:{entry.owner.plugin}",
            )
        return made

    def takes(self, kind: str, name: str, option: str) -> bool:
        """Whether the factory of this name takes an option, as far as its signature tells. Raises UnknownNameError."""
        try:
            parameters = inspect.signature(self.entry(kind, name).factory).parameters.values()
        except (TypeError, ValueError):  # some callables written in C have no signature
            return True
        return any(p.name == option or p.kind is p.VAR_KEYWORD for p in parameters)

    def _of(self, kind: str) -> dict[str, Entry]:
        try:
            return self._entries[kind]
        except KeyError:
            raise UnknownNameError("kind of plugin", kind, KINDS) from None


def checked_entry(kind: str, name: Any, factory: Any, summary: Any, requires: Any, owner: Owner) -> Entry:
    """An entry from what a plugin passed to ``add``. Raises PluginError when a part of it is impossible."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise PluginError(f"impossible {kind} name {name!r}", "use letters, digits, '_', '-' and '.'")
    if not callable(factory):
        raise PluginError(f"the factory of {kind} {name!r} is a {type(factory).__name__}, not a callable")
    if not isinstance(summary, str) or not isinstance(requires, str):
        raise PluginError(f"summary and requires of {kind} {name!r} must be text")
    return Entry(kind, name, factory, summary, requires, owner)


def missing_members(kind: str, made: object) -> tuple[str, ...]:
    """Members of the kind's Protocol that an object lacks, in their declared order."""
    if kind == "command":  # click is for the command line only: the kernel knows a command by its shape
        members = ["name", "params", "invoke", "main"]
    else:
        from . import interfaces

        members = [m for m in vars(getattr(interfaces, _PROTOCOLS[kind])) if not m.startswith("_")]
    return tuple(m for m in members if not hasattr(type(made), m) and not hasattr(made, m))


def _call(entry: Entry, options: dict[str, Any]) -> Any:
    what = f"{entry.kind} {entry.name!r}"
    try:
        return entry.factory(**options)
    except ApexError:
        raise
    except ImportError as error:
        own = getattr(entry.factory, "__module__", "").partition(".")[0]
        if entry.requires and (error.name or "").partition(".")[0] != own:
            distribution = entry.owner.distribution or "apex-framework"
            raise MissingExtraError(what, entry.requires, error.name or "", distribution) from error
        cause: Exception = error
    except (TypeError, ValueError) as error:
        if refused := _refused_option(error, options):
            raise ConfigError(f"{what} takes no option {refused!r}") from error
        if options and isinstance(error, ValueError):
            raise ConfigError(f"{what}: {error}") from error
        cause = error
    except Exception as error:  # noqa: BLE001 - the edge to a plugin's code: its failure is named as its own
        cause = error
    raise PluginError(
        f"{what} of plugin {entry.owner} cannot be made: {type(cause).__name__}: {cause}",
        f"report this to its author, or leave it out: -p no:{entry.owner.plugin}",
    ) from cause


def _refused_option(error: Exception, options: dict[str, Any]) -> str:
    match = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    return match[1] if isinstance(error, TypeError) and match and match[1] in options else ""


def extra_installed(distribution: str, extra: str) -> bool:
    """Whether every package of a distribution's extra is installed; true for an extra that it does not declare."""
    try:
        requirements = importlib.metadata.requires(distribution) if distribution else None
    except importlib.metadata.PackageNotFoundError:
        return True
    for requirement in requirements or ():
        name, _, marker = requirement.partition(";")
        if re.fullmatch(rf"\s*extra\s*==\s*['\"]{re.escape(extra)}['\"]\s*", marker):
            package = re.split(r"[^A-Za-z0-9._-]", name.strip(), maxsplit=1)[0]
            try:
                importlib.metadata.distribution(package)
            except importlib.metadata.PackageNotFoundError:
                return False
    return True
