"""The informativeness gate: can this suite show a difference between topologies at all?"""

from __future__ import annotations

import dataclasses
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from .context import Context
from .options import base_arm, plugin_settings, say_times

if TYPE_CHECKING:
    from ..analysis import Gate
    from ..config import Settings
    from ..experiment.plan import Plan

REPEATS = 3
"""Seeds of the static arms: what an oracle gains must exceed what three attempts gain."""


def ask_gate(context: Context, settings: Settings, out: Path | None) -> int:
    """Run every static topology three times and every fixed phase schedule once; 5 when the gate is not passed."""
    from ..analysis import evaluate_gate, read_episodes
    from ..experiment.arms import STATIC
    from ..experiment.artifacts import read_plan
    from ..experiment.manifest import DONE
    from ..experiment.resume import RUNS
    from .running import check_out, execute, open_folder

    for part in ("statics", "schedules"):
        check_out(out and out / part)
    say_times(context, settings)
    statics = [f"{STATIC}{topology}" for topology in settings.topology_set]
    schedules = [f"schedule:{','.join(shapes)}" for shapes in product(settings.topology_set, repeat=3)]
    parts = {
        "statics": _plan(context, settings, statics, REPEATS),
        "schedules": _plan(context, settings, schedules, 1),
    }
    out = out or RUNS / f"gate-{parts['statics'].digest[:6]}"
    for part, plan in parts.items():
        if (out / part / DONE).exists():
            read_plan(out / part).require_same(plan)
            continue
        folder = open_folder(context, plan, settings, out / part)
        outcome = execute(context, folder, settings.workers, settings.executor)
        if not outcome.complete:
            why = "interrupted" if outcome.spent is None else f"stopped: {outcome.spent}"
            context.say(f"{why}: {outcome.finished} of {outcome.planned} episodes are safe; the same command goes on")
            return outcome.exit_status
    rows = [*read_episodes(out / "statics"), *read_episodes(out / "schedules")]
    result = evaluate_gate(rows, statics=statics, schedules=schedules)
    values = {"passed": result.passed, "runs": str(out), **dataclasses.asdict(result)}
    context.emit(values, _text(result))
    return 0 if result.passed else 5


def _plan(context: Context, settings: Settings, names: list[str], seeds: int) -> Plan:
    from ..experiment.arms import default_arms
    from ..experiment.planning import make_plan

    return make_plan(
        context.plugins,
        default_arms(names, base_arm(settings), baselines=False),
        suite=settings.suite,
        split=settings.split,
        limit=settings.episodes,
        seeds=seeds,
        seed=settings.seed,
        real_time=settings.real_time,
        settings=plugin_settings(context, settings),
    )


def _text(gate: Gate) -> str:
    word = {True: "ok", False: "FAILED", None: "-"}
    lines = []
    for check in gate.checks:
        value = "–" if check.value is None else f"{100 * check.value:.1f} %"
        span = f" [{100 * check.interval.low:.1f}, {100 * check.interval.high:.1f}]" if check.interval else ""
        wanted = f" (wanted: {check.wanted})" if check.wanted else ""
        lines.append(f"{word[check.passed]:<7} {check.name}: {value}{span}{wanted}\n        {check.detail}".rstrip())
    lines.append(
        "gate passed" if gate.passed else "gate NOT passed: this suite cannot be relied on to show a difference"
    )
    return "\n".join(lines)
