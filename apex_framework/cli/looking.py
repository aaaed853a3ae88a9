"""The registered part of a sequential plan: run up to a look, look, write the look down, and only then go on or stop."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from .context import Context
from .parts import Machine, plan_of, run_folder

if TYPE_CHECKING:
    from ..config import Settings
    from ..experiment.looks import TakenLook
    from ..experiment.plan import Plan
    from ..experiment.planfile import Part, PlanFile
    from ..experiment.registration import Lock


def run_looks(context: Context, plan: PlanFile, part: Part, out: Path, whole: Plan, settings: Settings) -> int:
    """Run from look to look until one decides; looks that were taken stand. Returns the exit status.

    ``whole`` is what ``plan_looks`` made. Raises ArtifactError for a look that does not follow from its episodes, and
    what runs raise.
    """
    from ..experiment.looks import keep_look, take_look

    runs = plan.runs(part)
    order = {task.id: task.cluster or task.id for task in whole.tasks}
    status = 0
    taken: list[TakenLook] = []
    for run in runs:
        tasks = whole.tasks[run.look["from"] : run.look["to"]]
        asked = replace(whole, tasks=tasks, settings={**whole.settings, "look": dict(run.look)})
        ended = run_folder(context, asked, settings, out / run.folder)
        if ended not in (0, 4):
            return ended
        status = status or ended
        look = keep_look(out, take_look(plan, out, order, taken))
        taken.append(look)
        context.say(f"look {look.number} of {len(runs)}, {look.tasks} tasks: {look.sentence}")
        if look.stops:
            break
    return status


def plan_looks(
    context: Context, plan: PlanFile, part: Part, lock: Lock | None, machine: Machine
) -> tuple[Plan, Settings]:
    """All tasks in the order of looks. Raises ConfigError for looks beyond the tasks, and what ``plan_of`` raises."""
    last = plan.runs(part)[-1]
    everything = replace(last, look={**last.look, "from": 0})
    return plan_of(context, plan, part, everything, lock, machine)
