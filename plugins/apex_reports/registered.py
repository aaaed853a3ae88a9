"""What the experiment that a run belongs to has decided, as it stands in ``experiment.json`` beside the run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apex_framework.analysis import ArmRole, arm_role, points
from apex_framework.analysis.verdict import GO_LIFT
from apex_framework.errors import ArtifactError

from .decision import Bound, meaning, remainder, rivals_of
from .lines import run_facts
from .plain import plain

RESULT = "experiment.json"
ONE_LOOK = "What is below is computed as for a single look at the end: where looks could stop the run, only their own intervals hold."


@dataclass(frozen=True, slots=True)
class Registered:
    """A decision; all of it ``plain``."""

    word: str
    """GO, KILL or EXTEND."""
    sentence: str
    """What that means."""
    rest: str
    """What is not decided by it; empty where the sentence says all."""
    written: str
    """The sentence as the experiment wrote it."""
    facts: tuple[str, ...]
    """Hypothesis, rule, looks, deviations."""
    claim: float = GO_LIFT
    """The lift that GO asked for, and KILL excluded."""


def registered_of(runs: Sequence[Path]) -> Registered | None:
    """The decision of the experiment that the first run is part of; None where it is part of none, or none was made.

    Raises ArtifactError for a file that is damaged, or of another plan than the run.
    """
    if not runs:
        return None
    run = runs[0]
    mine = (run_facts(run)["plan"].get("settings") or {}).get("experiment")
    path = run.absolute().parent / RESULT
    if not isinstance(mine, dict) or not path.is_file():
        return None
    try:
        data = json.loads(path.read_bytes())
        if data["lock"] != (mine.get("registered") or None) or not _holds(data, run):
            raise ArtifactError(
                f"{path} is not of the plan that {run} was run for", "give the experiment's command again"
            )
        return None if data["decision"] is None else _decided(data, _statics(run))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ArtifactError(f"{path} is damaged: {error}", "give the experiment's command again") from error


def _holds(data: Mapping[str, Any], run: Path) -> bool:
    return run.absolute().name in {name for row in data["runs"] for name in (row["folder"], *row.get("runs", ()))}


def _decided(data: Mapping[str, Any], statics: Sequence[str]) -> Registered:
    decision, said = data["decision"], data["plan"]["prereg"]
    word = str(decision["word"])
    when = (
        f"registered {data['registered']}, before the first episode"
        if decision["registered"]
        else "not registered: exploratory"
    )
    written = str(decision["sentence"])
    bounds = [Bound(x["against"], x["estimate"], **_ends(x["interval"])) for x in decision.get("lifts") or ()]
    best = next(
        (str(part["best_static"]) for part in data["plan"].get("parts", ()) if part["name"] == said["part"]), ""
    )
    claim = float(said.get("claim", GO_LIFT))
    means = meaning(word, str(said.get("arm", "")), bounds, rivals_of(bounds, best, statics), claim)
    sentence = means or written.removeprefix(f"{word}: ")
    rest = remainder(word, written) if means else ""
    facts = (
        f"Hypothesis of experiment {data['plan']['name']}, about its part {said['part']}: {said['hypothesis']}.",
        f"Rule ({when}): {decision.get('rule') or 'a look when all episodes are there'}.",
        *_looks(decision.get("looks") or (), len(said.get("looks") or ())),
        *_deviations(data["deviations"]),
    )
    return Registered(
        plain(word, 20),
        plain(sentence, 2_000),
        plain(rest, 2_000),
        plain(written, 2_000),
        tuple(plain(fact, 2_000) for fact in facts),
        claim,
    )


def _ends(interval: Mapping[str, Any]) -> dict[str, float]:
    return {"low": float(interval["low"]), "high": float(interval["high"])}


def _statics(run: Path) -> list[str]:
    settings = {str(arm["name"]): arm for arm in run_facts(run)["plan"]["arms"]}
    return [name for name, setting in settings.items() if arm_role(name, setting) is ArmRole.STATIC]


def _looks(looks: Sequence[Mapping[str, Any]], planned: int) -> Iterator[str]:
    if not looks:
        return
    for look in looks:
        shown = "; ".join(
            f"against {e['against']} {points(e['estimate'])}, anytime {points(e['low'])} to {points(e['high'])}, "
            f"e-value {e['e_better']:.3g}"
            for e in look["comparisons"]
        )
        word = "goes on" if look["decision"] == "ON" else look["decision"]
        yield f"Look {look['number']} of {planned}, {look['tasks']} tasks: {word} ({shown})."
    last = looks[-1]
    if last["number"] < planned:
        yield (
            f"Look {last['number']} stopped it at {last['tasks']} tasks. Its intervals are of the anytime kind: they hold "
            "whenever one stops. The lift itself is flattered by stopping where it was large."
        )
    yield ONE_LOOK


def _deviations(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    told = "; ".join(f"{row['what']} ({row['why']})" if row.get("why") else str(row["what"]) for row in rows)
    yield f"Deviations from the plan: {told or 'none'}."
