"""Freezing a plan before it is run: ``PLAN.lock.json`` holds what it said, when, and hashes of what decides its results."""

from __future__ import annotations

import datetime
import hashlib
import importlib.util
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..catalog import Catalog
from ..episode.arm import Arm
from ..episode.workshop import make_suite
from ..errors import ArtifactError, PlanChangedError, RunFolderError
from ..plugins import Plugins
from ..ports import Files, SystemFiles
from .code import code_digests
from .foresight import answering
from .plan import canonical_json, digest_of, shortened
from .planfile import PlanFile
from .planning import policy_digest, suite_digest, versions
from .prereg import SEQUENTIAL, PreRegistration

FORMAT = 2
_WITHOUT_CODE = 1
"""Locks of this format say nothing of the code, and stay valid."""


@dataclass(frozen=True)
class Lock:
    """A registered plan."""

    registered: str
    """When, in UTC, as ISO 8601."""
    plan: Mapping[str, Any]
    hashes: Mapping[str, str]
    """``suite.NAME``, ``solver.NAME``, ``team.NAME``, ``policy.ARM`` -> sha256, or ``untrained``."""
    versions: Mapping[str, str] = field(default_factory=dict)
    code: Mapping[str, str] = field(default_factory=dict)
    """Package -> digest of what makes episodes and verdicts; empty in a lock of format 1."""

    @property
    def format(self) -> int:
        """Of the file."""
        return FORMAT if self.code else _WITHOUT_CODE

    @property
    def digest(self) -> str:
        """sha256 of all of it."""
        said = [self.format, self.registered, self.plan, self.hashes, self.versions]
        return digest_of([*said, self.code] if self.code else said)

    def changes(self, plan: PlanFile, hashes: Mapping[str, str]) -> list[str]:
        """What a plan and its surroundings say otherwise now, one phrase each."""
        was, prereg = self.plan, self.plan.get("prereg") or {}
        if prereg.get("stop") == SEQUENTIAL:
            was = {**was, "prereg": {"unit": PreRegistration.unit, **prereg}}
        return [*_differences("", was, plan.to_json()), *_differences("", self.hashes, hashes)]


def lock_path(plan: Path) -> Path:
    """``headline.lock.json`` beside ``headline.toml``."""
    return plan.with_suffix(".lock.json")


def read_lock(plan: Path) -> Lock | None:
    """The lock of a plan file, None when it was not registered. Raises ArtifactError for an edited one."""
    path = lock_path(plan)
    try:
        data = json.loads(path.read_bytes())
        lock = Lock(data["registered"], data["plan"], data["hashes"], data["versions"], data.get("code") or {})
        datetime.datetime.fromisoformat(lock.registered)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror}", "restore the file") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ArtifactError(f"{path} is no lock of a plan: {error}", "restore the file") from error
    if data.get("format") != lock.format or data.get("digest") != lock.digest:
        raise ArtifactError(f"{path} was edited: what it says and its digest disagree", "restore the file")
    return lock


def register(plan: PlanFile, hashes: Mapping[str, str], plugins: Plugins, *, files: Files | None = None) -> Lock:
    """Write the lock. Raises PlanChangedError when the file was registered with something else, RunFolderError."""
    if (lock := read_lock(plan.path)) is not None:
        if changed := lock.changes(plan, hashes):
            raise PlanChangedError(
                f"{plan.path} was registered on {lock.registered} and is another plan now: {'; '.join(changed)}",
                "register the new plan under a file name of its own",
            )
        return lock
    _check_announced(plan, hashes)
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    lock = Lock(now, plan.to_json(), dict(hashes), versions(plugins), code_digests())
    data = {"format": lock.format, "digest": lock.digest, **vars(lock)}
    path = lock_path(plan.path)
    try:
        (files or SystemFiles()).replace(path, json.dumps(data, indent=1, ensure_ascii=False).encode() + b"\n")
    except OSError as error:
        raise RunFolderError(f"cannot write {path}: {error.strerror}", "copy the plan to a folder of yours") from error
    return lock


def hashes_of(
    plan: PlanFile, arms: Iterable[Arm], catalog: Catalog, *, suite_options: Mapping[str, str] | None = None
) -> dict[str, str]:
    """What decides the results besides the plan, hashed: suites, the sources of backends and teams, policies.

    ``suite_options`` are those in force, where they are not the plan's own.
    """
    options = plan.settings.get("suite_options") if suite_options is None else suite_options
    found: dict[str, str] = {}
    for suite in sorted({part.suite for part in plan.parts}):
        with answering(catalog, "suite", suite):
            found[f"suite.{suite}"] = suite_digest(make_suite(catalog, suite, options=options))
    arms = list(arms)
    for what, kind, names in (
        ("solver", "llm_backend", {name for arm in arms for name in arm.backends.values()}),
        ("team", "team", {arm.team for arm in arms}),
    ):
        for name in sorted(names):
            found[f"{what}.{name}"] = _sources(catalog.entry(kind, name).owner.plugin, catalog, kind, name)
    for arm in sorted(arms, key=lambda arm: arm.name):
        if digest := policy_digest(arm, catalog):
            found[f"policy.{arm.name}"] = digest
    return found


def _check_announced(plan: PlanFile, hashes: Mapping[str, str]) -> None:
    """Raises PlanChangedError when a hash that the plan itself names is not what is found."""
    for name, wanted in (plan.prereg.hashes if plan.prereg else {}).items():
        full = [key for key in hashes if key == name or key.partition(".")[0] == name]
        if not full or any(not hashes[key].startswith(wanted.lower()) for key in full):
            got = ", ".join(f"{key} {hashes[key][:12]}" for key in full) or f"none; known: {', '.join(hashes)}"
            raise PlanChangedError(
                f"{plan.path}: the plan says {name} {wanted[:12]}, found: {got}",
                "install what the plan was written for, or correct its hashes before it is registered",
            )


def _sources(plugin: str, catalog: Catalog, kind: str, name: str) -> str:
    """sha256 over the files of the package that brings a plugin; the factory's module stands for one without."""
    module = catalog.entry(kind, name).factory.__module__.partition(".")[0]
    spec = importlib.util.find_spec(module)
    total = hashlib.sha256(plugin.encode())
    roots = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    for root in roots:
        for path in sorted(p for p in root.rglob("*") if p.is_file() and "__pycache__" not in p.parts):
            total.update(f"{path.relative_to(root).as_posix()}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def _differences(where: str, old: Any, new: Any) -> Iterator[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from _differences(f"{where}.{key}" if where else str(key), old.get(key), new.get(key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _differences(f"{where}[{index}]", one, other)
    elif old != new:
        yield f"{where}: {shortened(canonical_json(old))} -> {shortened(canonical_json(new))}"
