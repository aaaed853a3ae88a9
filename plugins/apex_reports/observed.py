"""What decisions, switches and calls of a run come to, arm by arm, in one pass over their files."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .lines import Key, Line, lines

STAY = "stay"


def _times() -> array[float]:
    return array("d")


@dataclass(slots=True)
class Conduct:
    """One arm's."""

    decisions: int = 0
    wishes: int = 0
    """Decisions for another topology than the one in force, the start left out."""
    explored: int = 0
    """Decisions with a positive exploration rate."""
    unlogged: int = 0
    """Decisions without a propensity in (0, 1]."""
    starts: Counter[str] = field(default_factory=Counter)
    moves: Counter[tuple[str, str]] = field(default_factory=Counter)
    aborts: Counter[str] = field(default_factory=Counter)
    steps: Counter[int] = field(default_factory=Counter)
    """Step -> committed switches at it."""
    margins: array[float] = field(default_factory=_times)
    """At wishes: score of the wish minus the score of staying."""
    moving: list[float] = field(default_factory=list)
    """Sums of features over wishes, and over decisions to stay."""
    staying: list[float] = field(default_factory=list)
    moved: int = 0
    stayed: int = 0
    decide_ms: array[float] = field(default_factory=_times)
    observe_ms: array[float] = field(default_factory=_times)
    learn_ms: array[float] = field(default_factory=_times)
    switch_ms: array[float] = field(default_factory=_times)
    phases: dict[str, array[float]] = field(default_factory=dict)
    calls: int = 0
    denials: Counter[str] = field(default_factory=Counter)
    """By the scope that said no."""
    wall_ms: array[float] = field(default_factory=_times)
    endings: Counter[str] = field(default_factory=Counter)
    """Why episodes ended that solved nothing."""


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """A decision of an episode that is shown."""

    step: int
    topology: str
    action: str
    scores: Mapping[str, float]
    features: tuple[float, ...]
    propensity: float


@dataclass(frozen=True, slots=True)
class SwitchRow:
    """A switch of an episode that is shown; ``phases`` in milliseconds of episode time."""

    step: int
    origin: str
    target: str
    ok: bool
    epoch: int
    reason: str
    phases: Mapping[str, float]
    whole_ms: float
    migrated: int


@dataclass(slots=True)
class Observed:
    """All arms, and the episodes that were asked for."""

    arms: dict[str, Conduct] = field(default_factory=dict)
    spent: dict[Key, int] = field(default_factory=dict)
    """Tokens of all settled calls."""
    decisions: dict[Key, list[DecisionRow]] = field(default_factory=dict)
    switches: dict[Key, list[SwitchRow]] = field(default_factory=dict)
    roles: dict[Key, dict[str, str]] = field(default_factory=dict)
    """Agent -> role in the episodes that are shown."""
    cut: int = 0
    """Lines of episodes that a shared budget cut short and that ran again."""

    def arm(self, name: str) -> Conduct:
        """The arm's, made when first asked for."""
        found = self.arms.get(name)
        if found is None:
            found = self.arms[name] = Conduct()
        return found


def observe(runs: Sequence[Path], shown: Collection[Key]) -> Observed:
    """Read the files of all runs; an episode that several runs hold counts once. Raises ArtifactError."""
    found = Observed()
    owner: dict[Key, int] = {}
    for number, run in enumerate(runs):
        for line in lines(run / "episodes.jsonl"):
            if owner.setdefault(line.key(), number) == number:
                _episode(found, line)
        for name, take in (("decisions", _decision), ("switches", _switch), ("calls", _call)):
            for line in lines(run / f"{name}.jsonl"):
                key = line.key()
                if owner.get(key, number) == number:
                    take(found, line, key, key in shown)
        found.cut += sum(1 for _ in lines(run / "cut.jsonl"))
    return found


def _episode(found: Observed, line: Line) -> None:
    arm = found.arm(line.text("arm"))
    if "wall_ms" in line.row:
        arm.wall_ms.append(line.number("wall_ms"))
    if not line.row.get("success"):
        arm.endings[line.text("reason") or line.text("status")] += 1


def _decision(found: Observed, line: Line, key: Key, shown: bool) -> None:
    arm = found.arm(key[0])
    step, topology, action = line.whole("step"), line.text("topology"), line.text("action")
    scores, features = line.numbers("scores"), line.vector("features")
    propensity = line.number("propensity")
    arm.decisions += 1
    arm.explored += line.number("epsilon") > 0
    arm.unlogged += not 0 < propensity <= 1
    arm.decide_ms.append(line.number("latency_ms"))
    if step or topology:
        arm.observe_ms.append(line.number("observe_ms"))
        wish = action not in ("", STAY, topology)
        arm.wishes += wish
        if wish and STAY in scores and action in scores:
            arm.margins.append(scores[action] - scores[STAY])
        if scores:  # where nothing was weighed, dwell or a fixed rule decided
            arm.moved, arm.stayed = arm.moved + wish, arm.stayed + (not wish)
            _add(arm.moving if wish else arm.staying, features)
    else:
        arm.starts[action] += 1
    arm.learn_ms.append(line.number("learn_ms"))
    line.needs("step", "action")
    if shown:
        row = DecisionRow(step, topology, action, scores, features, propensity)
        found.decisions.setdefault(key, []).append(row)


def _switch(found: Observed, line: Line, key: Key, shown: bool) -> None:
    arm = found.arm(key[0])
    ok, step = bool(line.row.get("ok")), line.whole("step")
    origin, target, reason = line.text("origin"), line.text("target"), line.text("reason")
    phases = line.numbers("phase_ms")
    whole = line.number("whole_ms", sum(phases.values()))
    line.needs("step", "origin", "target", "ok")
    if ok:
        arm.moves[origin, target] += 1
        arm.steps[step] += 1
        arm.switch_ms.append(whole)
    else:
        arm.aborts[reason or "no reason given"] += 1
    for phase, value in phases.items():
        arm.phases.setdefault(phase, _times()).append(value)
    if shown:
        row = SwitchRow(step, origin, target, ok, line.whole("epoch"), reason, phases, whole, line.whole("migrated"))
        found.switches.setdefault(key, []).append(row)


def _call(found: Observed, line: Line, key: Key, shown: bool) -> None:
    arm = found.arm(key[0])
    if shown:
        found.roles.setdefault(key, {})[line.text("agent_id")] = line.text("role")
    if line.text("event") == "CallDenied":
        reasons = line.row.get("reasons")
        arm.denials.update(str(scope) for scope in reasons) if isinstance(reasons, dict) else None
    elif line.text("event") == "CallSettled":
        arm.calls += 1
        found.spent[key] = found.spent.get(key, 0) + line.whole("tokens_in") + line.whole("tokens_out")


def _add(sums: list[float], features: tuple[float, ...]) -> None:
    sums.extend([0.0] * (len(features) - len(sums)))
    for index, value in enumerate(features):
        sums[index] += value
