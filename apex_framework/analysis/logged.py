"""Logged decisions of a run, with what another controller would have done at each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from math import isclose, isfinite
from types import SimpleNamespace
from typing import Any, cast

from ..errors import ArtifactError, NotComparableError
from ..interfaces import STAY, Controller, Decision, EpisodeContext, Observation, Trainable
from ..ports import derive_seed
from .episodes import RunData, iterate_lines
from .off_policy import LoggedDecision, LoggedEpisode

DRAWS = 20_000
"""Times that a controller is asked at most, to learn the chances of all its actions: 1 in 1,000 is missed once in 5e8."""
WINDOW = 10
"""Roles in an observation at most."""
SHARES = {"planner_share": "planner", "coder_runner_share": "coder", "critic_share": "critic"}
HEADROOM = "token_headroom_pct"
"""Names of logged features that an observation can be made from, as the specification has them."""
OBSERVED = {field.name: str(field.type) for field in fields(Observation)}

Key = tuple[str, int]
Row = Mapping[str, Any]
Make = Callable[[], Controller]


class Seen(SimpleNamespace):
    """The part of an observation that the log holds. Asking for another part raises NotComparableError."""

    def __getattr__(self, name: str) -> Any:
        if name not in OBSERVED:
            raise AttributeError(name)
        raise NotComparableError(
            f"the controller decides on {name!r}, which this log does not hold",
            "log with a controller that has the same features, or value one that needs less",
        )


def logged_observation(row: Row, setting: Row) -> Observation:
    """What the decision of a line of decisions.jsonl was made on; ``setting`` is its arm's in run.json.

    Raises ArtifactError for a garbled line, NotComparableError for one from before all of it was logged.
    """
    try:
        step, topology = int(row["step"]), str(row["topology"])
        topologies, budget = tuple(str(t) for t in setting["topologies"]), int(setting["budget"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ArtifactError(
            f"a line of decisions.jsonl, or its arm, lacks or garbles {error}", "run it again"
        ) from error
    seen = _told(row, Seen(step=step, topology=topology, topologies=topologies, token_budget=budget))
    return seen if isinstance(seen, Observation) else Observation(**{name: getattr(seen, name) for name in OBSERVED})


def logged_arm(run: RunData, arm: str | None) -> str:
    """The arm whose log is used: the given one, or the only one with chances under 1. Raises NotComparableError."""
    names = list(run.arms)
    if arm is not None:
        if arm not in names:
            raise NotComparableError(f"{run.path} has no arm {arm!r}", f"known: {', '.join(names)}")
        return arm
    exploring = {str(row.get("arm")) for row in iterate_lines(run.path / "decisions.jsonl") if _exploring(row)}
    found = [name for name in names if name in exploring]
    if len(found) == 1:
        return found[0]
    raise NotComparableError(
        f"{run.path}: {len(found) or 'no'} arms try actions by chance{': ' + ', '.join(found) if found else ''}",
        "name the logging arm with --arm" if found else "log with one that does, e.g. --controller random_switch:0.2",
    )


def logged_episodes(run: RunData, arm: str, make: Make, behaviour: Make | None = None) -> tuple[LoggedEpisode, ...]:
    """The arm's judged episodes for ``off_policy_value``; ``make`` gives the controller to be valued, frozen.

    ``behaviour`` makes the logging controller: from it the features get their names, and, unless it learned on the way,
    logged propensities are checked against it. A wish for the current topology counts as STAY. Raises ArtifactError for
    a damaged or incomplete log, or one whose propensities are not the logging controller's, and NotComparableError where the
    target needs what the log does not hold, or has other topologies.
    """
    setting = run.arms[arm]
    topologies = tuple(str(t) for t in setting.get("topologies", ()))
    context = EpisodeContext("value", 0, topologies, int(setting.get("budget") or 0), int(setting.get("dwell") or 0))
    names = _feature_names(behaviour, context) if behaviour is not None else ()
    same = names if names == _feature_names(make, context) else ()
    decisions = _by_episode(run, "decisions.jsonl", arm)
    switches = _by_episode(run, "switches.jsonl", arm)
    target, logger = make(), None if behaviour is None or setting.get("online") else behaviour()
    widths = {len(step.get("features") or ()) for steps in decisions.values() for step in steps}
    found = []
    for row in run.rows:
        if row.arm != arm or not row.judged:
            continue
        key = (row.task_id, row.seed)
        steps = decisions.get(key)
        if not steps or [s.get("step") for s in steps] != list(range(len(steps))):
            raise ArtifactError(
                f"{run.path / 'decisions.jsonl'}: episode {key} lacks decisions, or has some twice", "run it again"
            )
        context = replace(context, seed=derive_seed("episode", row.task_id, row.seed))  # as the episode itself had it
        made = tuple(
            _decision(step, switches.get(key, ()), setting, (names, same), (target, logger), context) for step in steps
        )
        if len(widths) > 1:  # logged at some decisions only
            made = tuple(replace(d, features=d.features[: len(topologies) + 1]) for d in made)
        found.append(LoggedEpisode(row.task_id, row.cluster, float(row.success), made))
    return tuple(found)


def chances(
    controller: Controller, observation: Observation, context: EpisodeContext
) -> tuple[dict[str, float], Decision]:
    """Action -> its chance here, and one of the decisions: asked again until the propensities add up to 1.

    Raises NotComparableError for a controller whose chances do not after ``DRAWS`` questions.
    """
    found: dict[str, float] = {}
    for draw in range(DRAWS):
        controller.begin(replace(context, seed=context.seed + draw))
        decision = controller.decide(observation)
        action = STAY if decision.action == observation.topology else decision.action
        found[action] = decision.propensity
        total = sum(found.values())
        if isclose(total, 1.0, abs_tol=1e-9):
            return found, decision
        if total > 1.0:
            break
    raise NotComparableError(
        f"the chances that {controller.name} tells of its actions add up to {sum(found.values()):.3f}, not 1",
        "only a controller with honest propensities can be valued",
    )


def _decision(
    row: Row,
    switches: Sequence[Row],
    setting: Row,
    named: tuple[Sequence[str], Sequence[str]],
    controllers: tuple[Controller, Controller | None],
    context: EpisodeContext,
) -> LoggedDecision:
    """One line; ``named`` are the names of its features, and again where the target has the same ones.

    ``controllers`` are the target and, where it can be asked, the logging one.
    """
    (names, same), (target, logger) = named, controllers
    try:
        step, topology, action = int(row["step"]), str(row["topology"]), str(row["action"])
        propensity, epsilon = float(row["propensity"]), float(row["epsilon"])
        features, scores = tuple(float(f) for f in row["features"]), dict(row["scores"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ArtifactError(f"a line of decisions.jsonl lacks or garbles {error}", "run it again") from error
    if not 0.0 < propensity <= 1.0 + 1e-9 or (topology and topology not in context.topologies):
        raise ArtifactError(
            f"a line of decisions.jsonl has propensity {propensity}, topology {topology!r}", "run it again"
        )
    follows = _observation(step, topology, switches, setting, context)
    if not row.get("observation") and len(names) == len(features):
        _from_features(follows, dict(zip(names, features, strict=True)), context.token_budget)
    seen = _told(row, follows) if row.get("observation") else follows
    wished, decided = chances(target, cast(Observation, seen), context)
    if strange := sorted(wished.keys() - {STAY, *context.topologies}):
        raise NotComparableError(
            f"{target.name} chooses {strange[0]!r}, which the arm does not have", "same topologies"
        )
    if len(decided.features) == len(features) == len(same) and any(
        not isclose(mine, theirs, abs_tol=1e-9) for mine, theirs in zip(decided.features, features, strict=True)
    ):
        raise ArtifactError(
            f"the features logged at step {step} are not those of what was seen there", "the log was changed: run again"
        )
    wish, action = action, STAY if action == topology else action
    possible: set[str] | None = {STAY if a == topology else a for a in scores} if scores and epsilon > 0 else None
    if propensity >= 1.0 - 1e-9:
        possible = {action}
    elif logger is not None and (known := _chances_or_none(logger, seen, context)) is not None:
        if not isclose(known.get(action, 0.0), propensity, abs_tol=1e-6):
            raise ArtifactError(
                f"at step {step} the log gives {wish!r} a chance of {propensity:g}, {logger.name} one of "
                f"{known.get(action, 0.0):g}",
                "the log was changed, or the controller has another policy now: run again",
            )
        possible = set(known)
    place = (*(float(t == topology) for t in context.topologies), 1.0 / (1 + step))
    return LoggedDecision(
        action, min(1.0, propensity), wished, (*place, *features), None if possible is None else frozenset(possible)
    )


def _chances_or_none(logger: Controller, seen: Seen | Observation, context: EpisodeContext) -> dict[str, float] | None:
    """None where the log does not hold what the logging controller decided on."""
    try:
        return chances(logger, cast(Observation, seen), context)[0]
    except NotComparableError:
        return None


def _observation(step: int, topology: str, switches: Sequence[Row], setting: Row, context: EpisodeContext) -> Seen:
    """What follows from decisions and switches alone."""
    try:
        lines = [(int(s["step"]), bool(s["ok"]), int(s["epoch"])) for s in switches]
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"a line of switches.jsonl lacks or garbles {error}", "run it again") from error
    before = [line for line in lines if line[0] < step]
    done = [line for line in before if line[1]]
    since = step - done[-1][0] if done else step
    attempt = step - before[-1][0] if before else None
    seen = Seen(
        step=step,
        topology=topology,
        topologies=context.topologies,
        token_budget=context.token_budget,
        epoch=done[-1][2] if done else 0,
        steps_since_switch=since,
        switches=len(done),
        aborted_switches=len(before) - len(done),
    )
    if not (setting.get("prevalidate") or setting.get("health_pin")):  # these stop wishes without a line
        rested = attempt is None or attempt >= int(setting.get("cooldown") or 0)
        seen.can_switch = not topology or (rested and since >= int(setting.get("dwell") or 0))
    return seen


def _told(row: Row, seen: Seen) -> Seen | Observation:
    """What the line says of what was observed; of ``seen`` only where and when. Raises ArtifactError."""
    told = row.get("observation") or {}
    if not isinstance(told, dict):
        raise ArtifactError("a line of decisions.jsonl has an observation that is no table", "run it again")
    known = {name: told[name] for name in OBSERVED if name in told}
    for name, value in known.items():
        if not _is(OBSERVED[name], value):
            raise ArtifactError(f"a line of decisions.jsonl observes {name} {value!r}", "run it again")
    at = {name: getattr(seen, name) for name in ("step", "topology", "topologies", "token_budget")}
    if "recent_roles" in known:
        known["recent_roles"] = tuple(known["recent_roles"])
    known |= at
    return Observation(**known) if OBSERVED.keys() == known.keys() else Seen(**known)


def _is(kind: str, value: object) -> bool:
    """Whether a value out of JSON is of the kind of an observation's field."""
    if kind == "bool":
        return isinstance(value, bool)
    if kind == "str":
        return isinstance(value, str)
    if kind == "tuple[str, ...]":
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if kind == "Mapping[str, float]":
        return isinstance(value, dict) and all(_is("float", item) for item in value.values())
    if kind == "float | None":
        return value is None or _is("float", value)
    number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    return number and (kind == "float" or isinstance(value, int))


def _from_features(seen: Seen, named: Mapping[str, float], budget: int) -> None:
    """Roles (their shares, not their order) and tokens, where the logged features tell them."""
    if SHARES.keys() <= named.keys():
        wanted = [named[name] for name in SHARES]
        for length in range(WINDOW + 1):
            counts = [round(share * length) for share in wanted]
            if all(isclose(c, s * length, abs_tol=1e-9) for c, s in zip(counts, wanted, strict=True)) and (
                length or not any(wanted)
            ):
                roles = [role for role, c in zip(SHARES.values(), counts, strict=True) for _ in range(c)]
                seen.recent_roles = (*roles, *["other"] * (length - len(roles)))
                break
    if HEADROOM in named and budget:
        seen.tokens_used = round((1.0 - named[HEADROOM]) * budget)


def _feature_names(make: Make, context: EpisodeContext) -> tuple[str, ...]:
    controller = make()
    controller.begin(context)
    names = controller.save().meta.get("features", ()) if isinstance(controller, Trainable) else ()
    return tuple(str(name) for name in names)


def _by_episode(run: RunData, name: str, arm: str) -> dict[Key, list[Row]]:
    found: dict[Key, list[Row]] = {}
    path = run.path / name
    for row in iterate_lines(path, missing_ok=True):
        if row.get("arm") == arm:
            try:
                found.setdefault((str(row["task_id"]), int(row["seed"])), []).append(row)
            except (KeyError, TypeError, ValueError) as error:
                raise ArtifactError(f"{path}: a line names no episode: {error}", "run it again") from error
    return found


def _exploring(row: Row) -> bool:
    chance = row.get("propensity")
    return isinstance(chance, int | float) and 0.0 < chance < 1.0 - 1e-9
