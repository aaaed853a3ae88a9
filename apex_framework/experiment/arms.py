"""Arms by name: controllers, their static baselines, the single agent and the manager."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..catalog import Catalog
from ..episode.arm import Arm
from ..errors import ConfigError, MissingExtraError

SINGLE, MANAGER, STATIC = "single", "manager", "static_"
PINNED = "chain"
"""Where the health pin brings a team."""


def arm_named(name: str, base: Arm) -> Arm:
    """The arm that a name stands for, other settings as in ``base``.

    ``single`` and ``manager`` are teams, ``static_T`` stays in topology T; anything else is a controller, with options
    after a colon (``schedule:star,chain,flat``).
    """
    if name == SINGLE:
        return replace(base, name=name, team="single", team_size=None, controller="static")
    if name == MANAGER:
        hub = "static:star" if "star" in base.topologies else "static"
        return replace(base, name=name, team="manager", team_size=None, controller=hub)
    if name.startswith(STATIC):
        return replace(base, name=name, controller=f"static:{name.removeprefix(STATIC)}")
    return replace(base, name=name, controller=name)


def default_arms(
    controllers: Iterable[str], base: Arm, *, baselines: bool = True, others: Iterable[str] = ()
) -> list[Arm]:
    """Controllers first; then a static arm per topology and the single agent, unless left out; then ``others``."""
    names = list(controllers)
    if baselines:
        names += [f"{STATIC}{topology}" for topology in base.topologies] + [SINGLE]
    names += others
    return [arm_named(name, base) for name in dict.fromkeys(names)]


def with_policy(arms: Iterable[Arm], catalog: Catalog, policy: str) -> list[Arm]:
    """Give a trained policy to the one controller among the arms that can be trained. Raises ConfigError if it is not one."""
    arms = list(arms)
    able = [arm for arm in arms if _trainable(arm.controller, catalog)]
    if len(able) != 1:
        names = ", ".join(arm.name for arm in able) or "none"
        raise ConfigError(f"--policy is for one controller that can be trained, here: {names}", "name one --controller")
    options = {**able[0].controller_options, "policy": policy}
    return [replace(arm, controller_options=options) if arm is able[0] else arm for arm in arms]


def _trainable(controller: str, catalog: Catalog) -> bool:
    from ..interfaces import Trainable
    from .foresight import answering

    with answering(catalog, "controller", controller):
        return isinstance(catalog.make("controller", controller), Trainable)


def check_names(arm: Arm, catalog: Catalog) -> None:
    """Every name in an arm is a plugin that can be used here. Raises UnknownNameError, MissingExtraError, ConfigError."""
    if len(set(arm.topologies)) != len(arm.topologies):
        raise ConfigError(f"arm {arm.name!r} names a topology twice", "--topology-set star,chain,flat")
    if arm.relief and arm.relief not in arm.topologies:
        raise ConfigError(f"relief {arm.relief!r} is not in the topology set", f"one of {', '.join(arm.topologies)}")
    if arm.relief and not arm.throttle:
        raise ConfigError("relief needs throttle: nobody measures pressure without it", "--set throttle=true")
    if arm.health_pin and PINNED not in arm.topologies:
        raise ConfigError(f"health_pin needs {PINNED!r} in the topology set", f"--topology-set {PINNED},…")
    used = [
        *(("topology", name) for name in arm.topologies),
        ("controller", arm.controller),
        ("team", arm.team),
        *(("llm_backend", name) for name in arm.backends.values()),
        ("lane", arm.lane),
        ("transport", arm.transport),
        *(("budget_scope", name) for name in arm.scopes),
        *(("policy", name) for name in arm.policies),
        *(("interceptor", name) for name in arm.interceptors),
    ]
    for kind, name in used:
        entry = catalog.entry(kind, name)
        if entry.status != "ok":
            raise MissingExtraError(
                f"{kind} {name!r}", entry.requires, "", entry.owner.distribution or "apex-framework"
            )
