"""The guarded loader: every plugin in its own try, every failure with a name, none of them contagious."""

from __future__ import annotations

import importlib.metadata
import inspect
import logging
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pluggy

from .catalog import Catalog, Entry, Owner, checked_entry
from .errors import NameTakenError, PluginError, UnknownNameError
from .hookspecs import KINDS, PROJECT, ApexSpec
from .timelimit import TimeLimitExceeded, time_limit

if TYPE_CHECKING:
    from .events import Event

OWN_DISTRIBUTION = "apex-framework"

OBSERVERS: dict[str, str] = {
    "EpisodeStarted": "apex_on_episode_started",
    "EpisodeFinished": "apex_on_episode_finished",
    "DecisionTaken": "apex_on_decision",
    "SwitchFinished": "apex_on_switch",
    "CallDenied": "apex_on_denied",
    "RunFinished": "apex_on_run_finished",
}
"""Type of event -> the hook that observes it. Other events go to exporters only."""

_HOOKS = frozenset(name for name in vars(ApexSpec) if name.startswith("apex_"))
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PluginRecord:
    """What became of one plugin."""

    name: str
    distribution: str
    version: str
    status: str
    """``ok``, ``needs [extra]``, ``blocked`` or ``BROKEN``."""
    error: str = ""
    """Why it is blocked or broken, with the hook where that is known."""
    load_ms: float = 0.0
    provides: tuple[tuple[str, str], ...] = ()
    """(kind, name) of everything that it registered."""


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What became of every plugin, in the order of loading."""

    plugins: tuple[PluginRecord, ...]

    @property
    def broken(self) -> tuple[PluginRecord, ...]:
        """The plugins that could not be loaded."""
        return tuple(p for p in self.plugins if p.status == "BROKEN")


class Plugins:
    """The loaded plugins: their catalog, the report on their loading, and the way to their observers."""

    def __init__(self, catalog: Catalog, report: LoadReport, observers: Mapping[str, Sequence[_Impl]]) -> None:
        self.catalog = catalog
        self.report = report
        self._observers = observers
        self._failed: set[tuple[str, str]] = set()

    def notify(self, event: Event) -> None:
        """Tell an event to every observer, plugin by plugin. A failing observer is logged once and harms nobody."""
        hook = OBSERVERS.get(type(event).__name__, "")
        for impl in self._observers.get(hook, ()):
            try:
                impl.call(event=event)
            except Exception as error:  # noqa: BLE001 - observers may fail: the run goes on without them
                if (impl.owner.plugin, hook) not in self._failed:
                    self._failed.add((impl.owner.plugin, hook))
                    _log.warning("observer %s of plugin %s failed: %r", hook, impl.owner, error, exc_info=True)


def load_plugins(
    *,
    block: Collection[str] = (),
    only: Collection[str] | None = None,
    safe_mode: bool = False,
    strict: bool = False,
    environ: Mapping[str, str] | None = None,
    plugins: Mapping[str, ApexSpec] | Sequence[ApexSpec] = (),
) -> Plugins:
    """Load every plugin of the entry-point group, then ``plugins`` of this process.

    ``block`` leaves plugins out by name; ``only`` leaves out all others; ``safe_mode`` loads what comes with APEX and
    nothing else. ``APEX_PLUGINS=a,b`` in ``environ`` names the plugins that may be loaded besides those of APEX (none
    when it is empty), ``APEX_PLUGIN_TIMEOUT_S`` the seconds that one plugin may take (5).

    Raises UnknownNameError when a name to block or to allow is no plugin, and with ``strict`` PluginError for the
    first broken plugin; otherwise broken plugins are skipped with all that they registered, and stand in the report.
    """
    environ = os.environ if environ is None else environ
    candidates = [*_installed(), *_given(plugins)]
    why_not = _choice(candidates, block, only, safe_mode, environ.get("APEX_PLUGINS"))
    limit = _seconds(environ.get("APEX_PLUGIN_TIMEOUT_S", ""))
    loader = _Loader()
    records: list[PluginRecord] = []
    for candidate in candidates:
        if reason := why_not(candidate):
            owner = candidate.owner
            records.append(PluginRecord(owner.plugin, owner.distribution, owner.version, "blocked", reason))
        else:
            records.append(loader.load(candidate, limit, strict=strict))
    return Plugins(loader.catalog, LoadReport(tuple(records)), loader.observers)


@dataclass(frozen=True, slots=True)
class _Candidate:
    owner: Owner
    load: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class _Impl:
    """One plugin's implementation of one hook."""

    owner: Owner
    hook: str
    function: Callable[..., object]
    argnames: Sequence[str]

    def call(self, **values: object) -> object:
        return self.function(**{name: values[name] for name in self.argnames})


class _Loader:
    def __init__(self) -> None:
        self.catalog = Catalog()
        self.observers: dict[str, list[_Impl]] = {}
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(ApexSpec)

    def load(self, candidate: _Candidate, limit_s: float, *, strict: bool) -> PluginRecord:
        """Import, register and ask one plugin; on any failure undo all of it."""
        owner = candidate.owner
        started = time.perf_counter()
        where = ["import"]
        plugin: Any = None
        entries: list[Entry] = []
        error = ""
        cause: BaseException | None = None
        try:
            with time_limit(limit_s):
                plugin = candidate.load()
                where[0] = "registration"
                impls = self._register(plugin, owner)
                for impl in impls:
                    where[0] = impl.hook
                    entries += _ask(impl)
            where[0] = "names"
            self.catalog.extend(entries)
            for impl in impls:
                if impl.hook.startswith("apex_on_"):
                    self.observers.setdefault(impl.hook, []).append(impl)
        except TimeLimitExceeded as failure:
            error, cause = f"{where[0]}: hangs (more than {limit_s:g} s)", failure
        except PluginError as failure:
            error, cause = f"{where[0]}: {failure}", failure
        except (Exception, SystemExit) as failure:  # noqa: BLE001 - the loader's edge: a plugin may raise anything
            error, cause = f"{where[0]}: {type(failure).__name__}: {failure}", failure
        load_ms = (time.perf_counter() - started) * 1000
        if error:
            if plugin is not None and self._manager.is_registered(plugin):
                self._manager.unregister(plugin)
            if strict:
                if isinstance(cause, NameTakenError):
                    raise cause
                raise PluginError(
                    f"plugin {owner} is broken: {error}", f"leave it out: -p no:{owner.plugin}"
                ) from cause
            return PluginRecord(owner.plugin, owner.distribution, owner.version, "BROKEN", error, load_ms)
        provides = tuple((e.kind, e.name) for e in entries)
        unmet = [status for e in entries if (status := e.status) != "ok"]
        status = unmet[0] if unmet and len(unmet) == len(entries) else "ok"
        return PluginRecord(owner.plugin, owner.distribution, owner.version, status, "", load_ms, provides)

    def _register(self, plugin: Any, owner: Owner) -> list[_Impl]:
        if self._manager.has_plugin(owner.plugin):
            raise PluginError(f"a plugin named {owner.plugin!r} is loaded already")
        if not isinstance(plugin, ApexSpec):
            raise PluginError(f"'plugin' is of type {type(plugin).__name__}, not an instance of a subclass of ApexSpec")
        _refuse_typos(type(plugin))
        self._manager.register(plugin, owner.plugin)
        self._manager.check_pending()
        impls = [
            (caller.name, impl)
            for caller in self._manager.get_hookcallers(plugin) or ()
            for impl in caller.get_hookimpls()
            if impl.plugin is plugin
        ]
        if wrapper := next((hook for hook, impl in impls if impl.wrapper or impl.hookwrapper), ""):
            raise PluginError(f"{wrapper} is a hook wrapper, which APEX has no use for")
        return [_Impl(owner, hook, impl.function, impl.argnames) for hook, impl in impls]


def _refuse_typos(cls: type[ApexSpec]) -> None:
    """Raises PluginError for what pluggy would pass over in silence."""
    for name in dir(cls):
        if not name.startswith("apex_"):
            continue
        if name not in _HOOKS:
            unknown = UnknownNameError("hook", name, _HOOKS)
            raise PluginError(f"{unknown}, {unknown.remedy}")
        if getattr(cls, name) is not getattr(ApexSpec, name) and not hasattr(getattr(cls, name), f"{PROJECT}_impl"):
            raise PluginError(f"{name} is not marked with @hookimpl")


def _ask(impl: _Impl) -> Iterator[Entry]:
    """Entries that one registering hook brings; nothing for an observer. Raises PluginError."""
    kind = next((k for k, hook in KINDS.items() if hook == impl.hook), None)
    if kind is None:
        return
    entries: list[Entry] = []

    def add(name: str, factory: Callable[..., Any], *, summary: str = "", requires: str = "") -> None:
        entries.append(checked_entry(kind, name, factory, summary, requires, impl.owner))

    result = impl.call(add=add)
    if inspect.iscoroutine(result):
        result.close()
        raise PluginError(f"{impl.hook} is asynchronous; hooks are plain functions")
    if result is not None:
        raise PluginError(f"{impl.hook} returned a {type(result).__name__}; call add(name, factory) instead")
    yield from entries


def _installed() -> list[_Candidate]:
    """Entry points of the group: those of APEX first, then by distribution and name."""
    found: list[tuple[bool, str, str, _Candidate]] = []
    known: dict[int, tuple[str, str]] = {}
    for point in importlib.metadata.entry_points(group=PROJECT):
        distribution = version = ""
        if point.dist is not None:
            if id(point.dist) not in known:
                known[id(point.dist)] = (point.dist.metadata["Name"], point.dist.version)
            distribution, version = known[id(point.dist)]
        owner = Owner(point.name, distribution, version)
        stranger = distribution != OWN_DISTRIBUTION
        found.append((stranger, distribution, point.name, _Candidate(owner, _from_entry_point(point))))
    return [candidate for *_, candidate in sorted(found, key=lambda f: f[:3])]


def _from_entry_point(point: importlib.metadata.EntryPoint) -> Callable[[], Any]:
    def load() -> Any:
        module = point.load()
        try:
            return module.plugin
        except AttributeError:
            raise PluginError(f"{point.value} has no attribute 'plugin'") from None

    return load


def _given(plugins: Mapping[str, ApexSpec] | Sequence[ApexSpec]) -> list[_Candidate]:
    named = plugins.items() if isinstance(plugins, Mapping) else ((_own_name(p), p) for p in plugins)
    return [_Candidate(Owner(name), _always(plugin)) for name, plugin in named]


def _own_name(plugin: ApexSpec) -> str:
    name = type(plugin).__name__.lower()
    return type(plugin).__module__.partition(".")[0] if name == "plugin" else name


def _always(value: Any) -> Callable[[], Any]:
    return lambda: value


def _choice(
    candidates: Sequence[_Candidate],
    block: Collection[str],
    only: Collection[str] | None,
    safe_mode: bool,
    listed: str | None,
) -> Callable[[_Candidate], str]:
    """A function that says why a candidate is left out, or nothing."""
    allowed = None if listed is None else {name.strip() for name in listed.split(",") if name.strip()}
    names = {c.owner.plugin for c in candidates} | {c.owner.distribution for c in candidates} - {""}
    for wanted in (*block, *(only or ()), *(allowed or ())):
        if wanted not in names:
            raise UnknownNameError("plugin", wanted, names)

    def why_not(candidate: _Candidate) -> str:
        owner = candidate.owner
        own_names = {owner.plugin, owner.distribution}
        stranger = owner.distribution != OWN_DISTRIBUTION
        if own_names & set(block):
            return "blocked by name"
        if only is not None and not own_names & set(only):
            return "not among those asked for"
        if safe_mode and stranger:
            return "safe mode"
        if allowed is not None and stranger and owner.distribution and not own_names & allowed:
            return "not in APEX_PLUGINS"
        return ""

    return why_not


def _seconds(text: str) -> float:
    try:
        return max(float(text), 0.001) if text else 5.0
    except ValueError:
        return 5.0
