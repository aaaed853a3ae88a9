"""An experiment's result as text: the decision first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..experiment.judgement import Decision, Rung


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
