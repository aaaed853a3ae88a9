"""What every report says, whatever its form: paragraphs, tables, commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from apex_framework.analysis import Answer, ArmRole, ArmSummary, Lift, answer_runs, points

from .plain import plain
from .registered import Registered, registered_of

LEVELS = {
    "L0": "mechanism tests: nothing about success",
    "L1": "a simulator: nothing about executed tasks",
    "L2": "tasks that were really executed, solved by a rule-based program: nothing about language models",
    "L3": "replays of recorded traces: what was recorded, not what another topology would have done",
    "L4": "a live language model",
}
"""Rungs of the claim ladder; only L4 answers the question for language models."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table; all cells are text, the first column names the row."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Content:
    """A report before it has a form."""

    verdict: str
    level: str
    facts: tuple[str, ...]
    tables: tuple[Table, ...]
    limits: tuple[str, ...]
    commands: tuple[str, ...]
    registered: Registered | None = None
    """Where the run belongs to an experiment that has decided."""


def content_of(runs: Sequence[Path], best_static: str = "") -> Content:
    """The content for one or more run folders. Raises ArtifactError, NotComparableError."""
    options = f" --best-static {quote(best_static)}" if best_static else ""
    return content_from(answer_runs(runs, best_static=best_static), runs, options)


def content_from(answer: Answer, runs: Sequence[Path], options: str = "") -> Content:
    """The content of an answer that is there already; ``options`` are those of ``apex report``. Every text is ``plain``."""
    level = answer.run.level or "L?"
    tables = (rests(answer), arms(answer), lifts(answer), families(answer), conduct(answer))
    return Content(
        verdict=plain(answer.verdicts[0].sentence if answer.verdicts else _no_verdict(answer), 2_000),
        level=plain(f"Claim level {level}: {LEVELS.get(level, 'unknown')}."),
        facts=tuple(plain(fact, 2_000) for fact in _facts(answer)),
        tables=tuple(_plain(table) for table in tables if table.rows),
        limits=tuple(plain(limit, 2_000) for limit in _limits(answer)),
        commands=tuple(plain(command, 4_000) for command in _commands(answer, runs, options)),
        registered=registered_of(runs),
    )


def _plain(table: Table) -> Table:
    rows = tuple(tuple(plain(cell) for cell in row) for row in table.rows)
    return Table(plain(table.title), tuple(plain(cell) for cell in table.head), rows, tuple(map(plain, table.notes)))


def percent(value: float) -> str:
    """A share as a percentage."""
    return f"{100 * value:.1f} %"


def _no_verdict(answer: Answer) -> str:
    names = ", ".join(a.arm for a in answer.arms) or "none"
    return f"No verdict: the run has no controller to judge (arms: {names})."


def _facts(answer: Answer) -> list[str]:
    run = answer.run
    tasks = len({row.task_id for row in run.rows})
    clusters = len({row.cluster for row in run.rows if row.judged})
    seeds = len({row.seed for row in run.rows})
    kind = "exploratory, because choices were made on this split" if answer.exploratory else "held out"
    facts = [
        f"{run.suite}/{run.split} ({kind}), suite digest {run.suite_digest[:12]}; "
        f"{tasks} tasks in {clusters} clusters, {seeds} seed{'s' * (seeds != 1)}, {len(run.rows)} episodes."
    ]
    if answer.missing_episodes:
        facts.append(f"Unfinished: {answer.missing_episodes} of {run.planned} planned episodes are missing.")
    facts += [verdict.sentence for verdict in answer.verdicts[1:]]
    if answer.verdicts:
        verdict = answer.verdicts[0]
        source = {"dev": "chosen before, on dev", "same data": "chosen on these very tasks"}
        if verdict.best_static:
            facts.append(f"Best static topology: {verdict.best_static}, {source[verdict.best_static_from]}.")
        facts.append(f"By the rule fixed in advance: {verdict.decision}.")
    if answer.oracle_static is not None:
        repeated = answer.repeated_static
        luck = f"; the best static run three times: {percent(repeated)}" if repeated is not None else ""
        facts.append(f"Oracle static (hindsight, an upper bound, partly luck): {percent(answer.oracle_static)}{luck}.")
    return facts


def rests(answer: Answer) -> Table:
    """The comparisons that the verdict rests on; BETTER needs every one of them."""
    verdict = answer.verdicts[0] if answer.verdicts else None
    return Table(
        "What the verdict rests on",
        ("against", "role", "points", "97.5 % lower bound", "97.5 % upper bound", "above zero"),
        tuple(
            (
                lift.against,
                str(answer.roles.get(lift.against, "")),
                points(lift.estimate),
                points(lift.interval.low),
                points(lift.interval.high),
                "yes" if lift.interval.low > 0 else "no",
            )
            for lift in (verdict.lifts if verdict else ())
        )
        + tuple((missing, "not in the run", "-", "-", "-", "no") for missing in (verdict.missing if verdict else ())),
        (
            "BETTER needs a lower bound above zero in every row; WORSE an upper bound below zero against the best static.",
        ),
    )


def arms(answer: Answer) -> Table:
    """What every arm solved and what it cost."""
    return Table(
        "Arms",
        ("arm", "tasks", "solved", "95 % interval", "tokens", "steps", "switches", "aborted", "overfit"),
        tuple(
            (
                arm.arm,
                str(arm.tasks),
                percent(arm.success),
                f"{percent(arm.interval.low)} to {percent(arm.interval.high)}",
                f"{arm.tokens:,.0f}",
                f"{arm.steps:.1f}",
                f"{arm.switches:.2f}",
                f"{arm.aborted:.2f}",
                percent(arm.overfit),
            )
            for arm in answer.arms
        ),
        (
            "solved: share of judged tasks within the token budget. tokens, steps, switches, aborted: means per episode.",
            "overfit: share of episodes that pass the visible tests and fail the hidden ones.",
        ),
    )


def conduct(answer: Answer) -> Table:
    """How arms behaved: both denominators, denials, budgets, latencies."""
    head = ("arm", "infra", "solved of all", "denied", "over budget", "messages", "decision p95", "switch p95")
    return Table(
        "Conduct",
        head,
        tuple(_conduct_of(arm, answer) for arm in answer.arms),
        (
            "infra: episodes that could not be run; solved of all: counts them as failures. denied: calls per episode.",
            "over budget: episodes that spent more than their budget, the one-sided 95 % bound on that rate, and their "
            "mean excess. messages: share of tokens that came from other agents.",
            "decision p95: wall time; switch p95: episode time.",
        ),
    )


def _conduct_of(arm: ArmSummary, answer: Answer) -> tuple[str, ...]:
    latency = answer.latencies.get(arm.arm, {})
    return (
        arm.arm,
        f"{arm.infrastructure} of {arm.episodes}",
        percent(arm.success_of_all),
        f"{arm.denied:.2f}",
        _safety(arm),
        percent(arm.message_share),
        f"{latency['decision_ms']:.3f} ms" if "decision_ms" in latency else "-",
        f"{latency['switch_ms']:.1f} ms" if "switch_ms" in latency else "-",
    )


def _safety(arm: ArmSummary) -> str:
    if arm.safety is None:
        return "-"
    excess = f", by {arm.safety.mean_overspend:,.0f} tokens" if arm.safety.violations else ""
    return f"{arm.safety.violations} (≤ {100 * arm.safety.upper:.2f} %{excess})"


def lifts(answer: Answer) -> Table:
    """Every paired lift."""
    head = (
        "lift of",
        "against",
        "points",
        "95 % interval",
        "wins",
        "losses",
        "McNemar p",
        "Holm p",
        "detectable",
        "pairs",
    )
    methods = sorted({lift.interval.method for lift in answer.lifts})
    return Table(
        "Paired lifts",
        head,
        tuple(_lift(lift, answer) for lift in answer.lifts),
        (
            f"intervals: {'; '.join(methods)}. McNemar: mid-p, tasks independent. Holm: over all but the verdict's own "
            "comparisons, which need none because all of them must hold.",
            "detectable: smallest true lift that so many tasks show with 80 % power at the discordance observed.",
        ),
    )


def _lift(lift: Lift, answer: Answer) -> tuple[str, ...]:
    adjusted = answer.holm.get(f"{lift.arm} - {lift.against}")
    role = " (single agent)" if answer.roles.get(lift.against) is ArmRole.SINGLE and lift.against != "single" else ""
    return (
        lift.arm,
        lift.against + role,
        points(lift.estimate),
        f"{points(lift.interval.low)} to {points(lift.interval.high)}",
        str(lift.wins),
        str(lift.losses),
        f"{lift.p_mid:.3f}",
        "-" if adjusted is None else f"{adjusted:.3f}",
        points(lift.detectable) if lift.detectable else "none",
        f"{lift.judged_pairs} of {lift.planned_pairs}",
    )


def families(answer: Answer) -> Table:
    """Solved per family of tasks; no rows where the suite has none."""
    names = [arm.arm for arm in answer.arms]
    return Table(
        "Solved per family",
        ("family", "tasks", *names),
        tuple(
            (family, str(max(s.tasks for s in by_arm.values())), *(percent(by_arm[n].success) for n in names))
            for family, by_arm in answer.families.items()
        ),
    )


def _limits(answer: Answer) -> list[str]:
    level = answer.run.level
    limits = [
        f"{arm.arm} was untrained: what it scores says nothing about a trained controller."
        for arm in answer.arms
        if answer.run.policies.get(arm.arm) == "untrained"
    ]
    if level == "L3":
        limits.append("At level L3 what was recorded is compared: not what another topology would have made of it.")
    elif level != "L4":
        limits.append(
            f"At level {level or '?'} neither the size nor the sign of a difference carries over to language models."
        )
    elif answer.run.suite == "mini":
        limits.append("Contaminated: language models know the standard library that these tasks are made from.")
    if answer.exploratory:
        limits.append("An exploratory split suggests; only the held-out one confirms.")
    if any(v.best_static_from == "same data" for v in answer.verdicts):
        limits.append("The best static topology was picked on the tasks it is compared on, which flatters it.")
    clusters = {row.cluster for row in answer.run.rows if row.judged}
    if len(clusters) < 30:
        limits.append(f"Only {len(clusters)} clusters: intervals come from sign flips of whole clusters.")
    limits.append("One suite, one source of answers, one budget: other tasks and budgets may rank the arms otherwise.")
    return limits


def _commands(answer: Answer, runs: Sequence[Path], options: str) -> tuple[str, ...]:
    folders = " ".join(quote(path.as_posix()) for path in runs)
    commands = [*(c for c in answer.run.command.split("; ") if c), f"apex report {folders}{options}"]
    if answer.next_command and answer.verdicts[0].word == "INCONCLUSIVE":
        commands.append(f"{answer.next_command}    # to learn more")
    return tuple(commands)
