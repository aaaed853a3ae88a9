"""An experiment's result: written beside its runs, and as text with the decision first."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..ports import SystemFiles
from .context import Context
from .deviating import writing

if TYPE_CHECKING:
    from ..experiment.artifacts import RunFolder
    from ..experiment.judgement import Decision, Rung
    from ..experiment.result import Result


def write_result(context: Context, result: Result, out: Path, *, page: bool) -> None:
    """The file, and the reports of every run, at whose top it stands. Raises RunFolderError."""
    from ..experiment.folder import RESULT
    from .running import write_reports

    with writing(out):
        data = json.dumps(result.value, indent=1, ensure_ascii=False).encode()
        SystemFiles().replace(out / RESULT, data + b"\n")
    for name in result.folders:
        write_reports(context, out / name, page=page)


def write_again(context: Context, folder: RunFolder, *, page: bool) -> str:
    """Make the result of the experiment that a finished run belongs to again; returns what is left to do, as a line."""
    from ..experiment.folder import RESULT
    from ..experiment.looks import read_looks
    from ..experiment.result import make_again

    if "experiment" not in folder.plan.settings:
        return ""
    out = folder.path.parent
    if (result := make_again(folder.path)) is None:
        return f"now: {result_command(folder, seen=any(folder.path.name in look.runs for look in read_looks(out)))}"
    write_result(context, result, out, page=page)
    decision = f": {result.decision.word}" if result.decision else ""
    context.say(f"{out / RESULT} is made again from its runs{decision}")
    return ""


def result_command(folder: RunFolder, *, seen: bool) -> str:
    """What makes the result of this run's experiment; it takes a reason when a look has ``seen`` other episodes."""
    return f"apex experiment PLAN --out {folder.path.parent}{' --deviate WHY' if seen else ''}"


def text_of(
    rungs: Sequence[Rung], decision: Decision | None, deviations: Sequence[Mapping[str, Any]], out: Path
) -> str:
    """What a person reads."""
    from ..analysis import p_text, points

    lines = []
    if decision is None:
        lines.append("No decision: nothing was registered, so all of this is exploratory.")
    else:
        rule = "registered before the first episode" if decision.registered else "not registered: exploratory"
        lines += [f"{decision.word} (rule {rule})", decision.sentence]
        lines += _looks(decision)
        if decision.detectable is not None:
            lines.append(f"So many tasks show a lift of {points(decision.detectable)} or more with 80 % power.")
        if decision.excluded:
            lines.append(f"{decision.excluded} episodes were left out by the registered exclusions.")
    for rung in rungs:
        folders = f" ({', '.join(rung.runs)})" if rung.runs else ""
        lines += ["", f"{rung.folder}{folders}: {rung.budget:,} tokens an episode, claim level {rung.level}"]
        width = max(len(str(arm["arm"])) for arm in rung.arms)
        against = {lift.against: lift for lift in rung.lifts}
        for arm in rung.arms:
            name = str(arm["arm"])
            solved = f"{100 * arm['success']:5.1f} % [{100 * arm['low']:.1f}, {100 * arm['high']:.1f}]"
            untrained = "  untrained" if arm["policy"] == "untrained" else ""
            lift = against.get(name)
            versus = (
                ""
                if lift is None
                else f"  {rung.arms[0]['arm']} {points(lift.estimate)}"
                f" [{points(lift.interval.low)}, {points(lift.interval.high)}], Holm p {p_text(rung.holm[name])}"
            )
            lines.append(f"  {name:<{width}}  {solved}  {arm['tokens']:>8,.0f} tokens{versus}{untrained}")
        if tests := list(dict.fromkeys(lift.test for lift in rung.lifts)):
            lines.append(f"  Holm p: of {' or '.join(tests)}, two-sided, {len(rung.lifts)} at once")
        if rung.oracle_static is not None:
            thrice = f"{100 * rung.repeated_static:.1f} %" if rung.repeated_static is not None else "needs three seeds"
            lines.append(
                f"  oracle static (hindsight) {100 * rung.oracle_static:.1f} %; best static run three times: {thrice}"
            )
    lines += ["", f"deviations from the plan: {len(deviations) or 'none'}"]
    lines += [f"  {row['what']}{': ' + row['why'] if row.get('why') else ''}" for row in deviations]
    lines += [f"folder: {out}    (each run: apex report {out}/RUN)"]
    return "\n".join(lines)


def _looks(decision: Decision) -> list[str]:
    """One line per look and comparison, and what the numbers after an early stop are."""
    from ..analysis import points

    lines = []
    for look in decision.looks:
        lines.append(f"look {look.number}, {look.tasks} tasks: {look.decision}")
        lines += [
            f"  against {e.against}: {points(e.estimate)}, anytime {points(e.low)} to {points(e.high)},"
            f" e-value {e.e_better:.3g} (below the claim: {e.e_small:.3g}), {e.tasks} tasks judged"
            for e in look.comparisons
        ]
    if decision.looks:
        lines.append(
            "Intervals of looks hold at every look together; a lift at an early stop is flattered by stopping there."
        )
    return lines
