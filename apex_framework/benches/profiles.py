"""The latency emulator against its profile: quantiles drawn, slept in virtual time, and slept for real.

The frozen file ``profiles.toml`` says what a team under load is: profile N (normal) and profile S (stress). Every row
measured under a profile carries the SHA-256 of the file. ``limit`` is the profile's own figure; ``error`` is relative.
Real sleeps are judged only from 50 ms up: below, the machine's timer is what would be measured.
"""

from __future__ import annotations

import asyncio
import hashlib
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ..errors import ConfigError, UnknownNameError

ARTIFACT = "profile_latency"
OPTIONS = frozenset({"n", "seed", "profile", "profile_file"})
SHIPPED = Path(__file__).with_name("profiles.toml")
DRAWS = 200_000
WALL_DRAWS = 400
WALL_FROM_MS = 50.0
SHARES = {"p50": 0.50, "p95": 0.95}


@dataclass(frozen=True, slots=True)
class Bursts:
    """For ``length_ms`` at the start of every ``period_ms`` the rate is ``factor`` times the rate between."""

    factor: float
    length_ms: float
    period_ms: float


@dataclass(frozen=True, slots=True)
class Sick:
    """So many agents are stuck for ``stuck_ms`` before a ``share`` of their messages."""

    agents: int
    share: float
    stuck_ms: float


@dataclass(frozen=True, slots=True)
class Throttle:
    """What a refused sender does: wait ``first_ms``, doubled up to ``most_ms``, and give up after ``patience_s``."""

    first_ms: float
    most_ms: float
    patience_s: float


@dataclass(frozen=True, slots=True)
class Profile:
    """A load, as the file describes it. ``sha256`` is the file's."""

    name: str
    sha256: str
    agents: int
    load: float
    seconds: float
    lane_capacity: int
    switch_every_ms: float
    classes: Mapping[str, float]
    handler_ms: Mapping[str, float]
    bursts: Bursts | None = None
    sick: Sick | None = None
    throttle: Throttle | None = None
    source: str = field(default=SHIPPED.name, compare=False)

    @property
    def stamp(self) -> dict[str, str]:
        """What every row measured under this profile carries."""
        return {"profile": self.name, "profile_sha256": self.sha256}


def read(name: str, path: Path | None = None) -> Profile:
    """Profile ``name`` of the shipped file or of another. Raises UnknownNameError, and ConfigError for a bad file."""
    path = path or SHIPPED
    try:
        data = path.read_bytes()
        tables = tomllib.loads(data.decode())
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", "choose another --profile-file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}", f"its form is that of {SHIPPED}") from error
    if name not in tables:
        raise UnknownNameError("profile", name, tables)
    try:
        return _profile(name, hashlib.sha256(data).hexdigest(), dict(tables[name]), path.name)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise ConfigError(f"{path}, profile {name}: {error}", f"its form is that of {SHIPPED}") from error


def from_args(args: Any, default: str) -> Profile:
    """The profile that a bench's options ask for."""
    path = getattr(args, "profile_file", None)
    return read(getattr(args, "profile", None) or default, Path(path) if path else None)


def _profile(name: str, sha256: str, table: dict[str, Any], source: str) -> Profile:
    for part, kind in (("bursts", Bursts), ("sick", Sick), ("throttle", Throttle)):
        if part in table:
            table[part] = kind(**table[part])
            _positive(part, {f.name: getattr(table[part], f.name) for f in fields(kind)})
    profile = Profile(name=name, sha256=sha256, source=source, **table)
    numbers = ("agents", "load", "seconds", "lane_capacity", "switch_every_ms")
    _positive("it", {key: getattr(profile, key) for key in numbers})
    _positive("handler_ms", profile.handler_ms)
    if set(profile.handler_ms) != {"p50", "p95"} or not profile.handler_ms["p50"] < profile.handler_ms["p95"]:
        raise ValueError("handler_ms needs p50 below p95")
    if set(profile.classes) != {"final", "draft", "critic"} or abs(sum(profile.classes.values()) - 1) > 1e-9:
        raise ValueError("classes must be final, draft and critic, together 1")
    if profile.bursts and profile.bursts.length_ms >= profile.bursts.period_ms:
        raise ValueError("bursts must be shorter than their period")
    if profile.agents < 2 or (profile.sick and (profile.sick.agents > profile.agents or profile.sick.share > 1)):
        raise ValueError("a team has two agents or more, and no more sick ones than agents")
    return profile


def _positive(where: str, values: Mapping[str, Any]) -> None:
    for key, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise ValueError(f"{where}: {key} must be a number above 0, not {value!r}")


def run(args: Any = None) -> Iterator[dict[str, object]]:
    """Rows of bench ``profiles``. ``args.n`` is the number of draws (200,000), ``args.profile`` one of the profiles."""
    draws = int(getattr(args, "n", None) or DRAWS)
    seed = int(getattr(args, "seed", None) or 0)
    wanted = getattr(args, "profile", None)
    for name in [wanted] if wanted else ["N", "S"]:
        yield from _check(from_args(args, name), draws, seed)


def _check(profile: Profile, draws: int, seed: int) -> Iterator[dict[str, object]]:
    from ..ports import rng
    from ..timeloop import run as run_virtual
    from .load import Lognormal

    law = Lognormal.of(profile.handler_ms["p50"], profile.handler_ms["p95"])
    source = rng("emulator", profile.name, seed)
    drawn = [law.draw(source) for _ in range(draws)]
    slept = run_virtual(_sleep_one_after_the_other(drawn))
    wall = [ms for ms in drawn if ms >= WALL_FROM_MS][:WALL_DRAWS]
    truly = asyncio.run(_sleep_together(wall))
    case = f"{profile.name}, {draws:,} draws"
    for metric, share in SHARES.items():
        limit = profile.handler_ms[metric]
        yield _row(profile, case, "limit", metric, limit, "ms")
        for contender, values in (("drawn", drawn), ("slept in virtual time", slept)):
            value = quantile(values, share)
            yield _row(profile, case, contender, metric, round(value, 4), "ms")
            yield _row(profile, case, contender, f"{metric} error", round(value / limit - 1, 5), "")
        value, aim = quantile(truly, share), quantile(wall, share)
        case_wall = f"{profile.name}, {len(wall)} real sleeps, at least {WALL_FROM_MS:.0f} ms"
        yield _row(profile, case_wall, "limit", metric, round(aim, 4), "ms")
        yield _row(profile, case_wall, "slept for real", metric, round(value, 4), "ms")
        yield _row(profile, case_wall, "slept for real", f"{metric} error", round(value / aim - 1, 5), "")


async def _sleep_one_after_the_other(drawn_ms: Sequence[float]) -> list[float]:
    loop = asyncio.get_running_loop()
    slept = []
    for ms in drawn_ms:
        begun = loop.time()
        await asyncio.sleep(ms / 1000)
        slept.append((loop.time() - begun) * 1000)
    return slept


async def _sleep_together(wall_ms: Sequence[float]) -> list[float]:
    loop = asyncio.get_running_loop()

    async def sleep(ms: float) -> float:
        begun = loop.time()
        await asyncio.sleep(ms / 1000)
        return (loop.time() - begun) * 1000

    async with asyncio.TaskGroup() as group:
        sleepers = [group.create_task(sleep(ms)) for ms in wall_ms]
    return [sleeper.result() for sleeper in sleepers]


def quantile(values: Sequence[float], share: float) -> float:
    """The exact empirical quantile: the smallest value with at least that share at or below it; 0 when there is none."""
    if not values:
        return 0.0
    rank = max(0, -int(-share * len(values) // 1) - 1)  # ceil(share * n) - 1
    return sorted(values)[rank]


def _row(profile: Profile, case: str, contender: str, metric: str, value: float, unit: str) -> dict[str, object]:
    row: dict[str, object] = {"bench": "profiles", "case": case, "contender": contender}
    return row | {"metric": metric, "value": value, "unit": unit} | profile.stamp
