"""From a call's tags to the scope instances that it counts against."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..errors import ConfigError
from ..interfaces.budget import BudgetScope, CallTags, Limits, Refills
from .entries import ScopeInstance

_log = logging.getLogger(__name__)
_SCOPE_ERROR = "policy:scope_error"


@dataclass(frozen=True, slots=True)
class Scope:
    """A scope as a guard uses it. ``refills`` is the scope itself when it holds a tranche of a shared ceiling."""

    name: str
    parent: str | None
    plugin: BudgetScope
    refills: Refills | None


@dataclass(frozen=True, slots=True)
class Resolved:
    """One scope of one call. ``instance`` and ``whole``, the limits that the scope names, are None when it is broken."""

    scope: Scope
    instance: ScopeInstance | None
    whole: Limits | None


class Resolver:
    """Asks scopes for keys and limits. A scope that raises or answers nonsense is broken, and admits nothing.

    Raises ConfigError for a name used twice, or a parent that is not among the scopes or nests in itself.
    """

    def __init__(self, scopes: Sequence[BudgetScope]) -> None:
        self.scopes = _parents_first(scopes)
        self.shared = any(scope.refills for scope in self.scopes)
        self._plugins = tuple([scope.plugin for scope in self.scopes])
        self._known: dict[tuple[str, str], tuple[ScopeInstance, Limits]] = {}
        self._paths: dict[tuple[str, ...], tuple[tuple[Resolved, ...], tuple[ScopeInstance, ...]]] = {}
        """Keys of a call -> what was found for them, so that a call like an earlier one costs no more than its keys."""

    def each(self, tags: CallTags) -> tuple[Resolved, ...]:
        """Every scope's instance, parents before children."""
        path = self._path(tags)
        return self._asked(tags) if path is None else path[0]

    def instances(self, tags: CallTags) -> tuple[ScopeInstance, ...] | dict[str, str]:
        """The instances of a call, parents before children, or the reasons why there are none."""
        path = self._path(tags)
        if path is not None:
            return path[1]
        each = self._asked(tags)
        broken = {found.scope.name: _SCOPE_ERROR for found in each if found.instance is None}
        return broken or tuple([found.instance for found in each if found.instance is not None])

    def _path(self, tags: CallTags) -> tuple[tuple[Resolved, ...], tuple[ScopeInstance, ...]] | None:
        try:
            return self._paths.get(tuple([plugin.key(tags) for plugin in self._plugins]))
        except Exception:  # noqa: BLE001 - a plugin's edge: it is asked again, and what is broken is told
            return None

    def _asked(self, tags: CallTags) -> tuple[Resolved, ...]:
        parents: dict[str, str] = {}
        each: list[Resolved] = []
        for scope in self.scopes:
            instance, whole = self._instance(scope, parents.get(scope.parent or ""), tags)
            if instance is not None:
                parents[scope.name] = instance.id
            each.append(Resolved(scope, instance, whole))
        found, good = tuple(each), tuple([one.instance for one in each if one.instance is not None])
        if len(good) == len(found):
            self._paths[tuple([instance.key for instance in good])] = found, good
        return found

    def _instance(
        self, scope: Scope, parent: str | None, tags: CallTags
    ) -> tuple[ScopeInstance, Limits] | tuple[None, None]:
        try:
            key = scope.plugin.key(tags)
            known = self._known.get((scope.name, key))
            if known is not None and known[0].parent == parent:
                return known
            limits = scope.plugin.limits(tags) if known is None else known[1]
        except Exception:  # noqa: BLE001 - a plugin's edge: a ceiling that cannot be read admits nothing
            _log.exception("budget scope %r failed; the call is denied", scope.name)
            return None, None
        if not isinstance(key, str) or not key or not _sound(limits, scope.refills is not None):
            _log.error("budget scope %r answered %r, %r; the call is denied", scope.name, key, limits)
            return None, None
        here = limits if scope.refills is None else Limits(0, limits.ms)  # nothing is leased yet
        found = self._known[(scope.name, key)] = ScopeInstance(scope.name, key, here, parent), limits
        return found


def nested(left: Mapping[str, int | None], instances: Iterable[ScopeInstance]) -> dict[str, int]:
    """Scope name -> tokens that are left there and in all that it nests in; parents come first.

    ``left`` holds what each instance (id) has for itself, None without a limit; scopes without any limit are left out.
    """
    whole: dict[str, int | None] = {}
    names: dict[str, int] = {}
    for instance in instances:
        own, above = left[instance.id], whole.get(instance.parent or "")
        bound = own if above is None else above if own is None else min(own, above)
        whole[instance.id] = bound
        if bound is not None:
            names[instance.name] = bound
    return names


def _sound(limits: object, shared: bool) -> bool:
    if not isinstance(limits, Limits):
        return False
    if shared and limits.tokens is None:
        return False
    return all(v is None or (type(v) is int and v >= 0) for v in (limits.tokens, limits.ms))


def _parents_first(scopes: Sequence[BudgetScope]) -> tuple[Scope, ...]:
    waiting = {scope.name: scope for scope in scopes}
    if len(waiting) != len(scopes):
        raise ConfigError(f"a budget scope is named twice: {', '.join(s.name for s in scopes)}")
    for scope in scopes:
        if scope.parent is not None and scope.parent not in waiting:
            raise ConfigError(f"budget scope {scope.name!r} needs its parent {scope.parent!r}", f"add {scope.parent!r}")
    ordered: list[Scope] = []
    while waiting:
        ready = [s for s in waiting.values() if s.parent not in waiting]
        if not ready:
            raise ConfigError(f"budget scopes nest in each other: {', '.join(waiting)}")
        ordered += [Scope(s.name, s.parent, waiting.pop(s.name), s if isinstance(s, Refills) else None) for s in ready]
    return tuple(ordered)
