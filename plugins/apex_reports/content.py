"""What every report says, whatever its form: paragraphs, tables, commands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from apex_framework.analysis import Answer, ArmRole, ArmSummary, Lift, answer_runs, no_verdict, p_text, points

from .decision import meaning_of
from .outcomes import alike, budget_binds
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
DIFFERING = re.compile(r"arms differ in (\d+) clusters")
"""In the name of an interval's method."""
UNTOLD = "—"
"""A number that nobody told."""
UNTIMED = (
    "Switches are not timed: an episode's clock is virtual and goes on for model calls and waits alone, so what a switch "
    "computes takes none of its time."
)
"""Said where switches took no episode time: zeros would look like a measurement."""


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
    decision: str = ""
    """By the rule fixed in advance; empty where there is no verdict, or the registered one is the same."""
    registered: Registered | None = None
    """Where the run belongs to an experiment that has decided."""
    same: bool = False
    """Whether the registered decision rests on the run's own verdict, which then needs no second telling."""
    early_look: str = ""
    """Where it is an unregistered look: says so, above everything."""


def content_of(runs: Sequence[Path], best_static: str = "") -> Content:
    """The content for one or more run folders. Raises ArtifactError, NotComparableError."""
    options = f" --best-static {quote(best_static)}" if best_static else ""
    return content_from(answer_runs(runs, best_static=best_static), runs, runs, options)


def content_from(answer: Answer, runs: Sequence[Path], read: Sequence[Path], options: str = "") -> Content:
    """The content of an answer to ``read``, of the ``runs`` that were named; ``options`` are those of ``apex report``.

    Every text is ``plain``. Raises ArtifactError.
    """
    level = answer.run.level or "L?"
    tables = (rests(answer), arms(answer), lifts(answer), families(answer), conduct(answer))
    registered = registered_of(runs)
    verdict = answer.verdicts[0] if answer.verdicts else None
    same = (
        registered is not None
        and verdict is not None
        and registered.word == verdict.decision
        and registered.written.startswith(plain(verdict.sentence, 2_000))
    )
    return Content(
        verdict=plain(answer.verdicts[0].sentence if answer.verdicts else no_verdict(answer), 2_000),
        level=plain(f"Claim level {level}: {LEVELS.get(level, 'unknown')}."),
        facts=tuple(plain(fact, 2_000) for fact in _facts(answer, read)),
        tables=tuple(_plain(table) for table in tables if table.rows),
        limits=tuple(plain(limit, 2_000) for limit in _limits(answer)),
        commands=tuple(plain(command, 4_000) for command in _commands(answer, runs, options)),
        decision="" if same else plain(_decision(answer), 2_000),
        registered=registered,
        same=same,
        early_look=plain(answer.run.early_look, 2_000),
    )


def _plain(table: Table) -> Table:
    rows = tuple(tuple(plain(cell) for cell in row) for row in table.rows)
    return Table(
        plain(table.title),
        tuple(plain(cell) for cell in table.head),
        rows,
        tuple(plain(note, 2_000) for note in table.notes),
    )


def percent(value: float) -> str:
    """A share as a percentage."""
    return f"{100 * value:.1f} %"


def number(value: float | None, form: str) -> str:
    """Formatted, or UNTOLD."""
    return UNTOLD if value is None else form.format(value)


def recorded(answer: Answer) -> bool:
    """Whether the arms are systems that ran elsewhere: nothing is known of them but what their verdicts tell."""
    return any(role is ArmRole.RECORDED for role in answer.roles.values())


def told(table: Table) -> Table:
    """The table without the columns in which every cell is UNTOLD, and without the notes that explain only such columns."""
    kept = [i for i, _ in enumerate(table.head) if not table.rows or any(row[i] != UNTOLD for row in table.rows)]
    rows = tuple(tuple(row[i] for i in kept) for row in table.rows)
    return Table(table.title, tuple(table.head[i] for i in kept), rows, table.notes)


def _untold(answer: Answer) -> list[str]:
    """What episodes do not tell, and what therefore is not in the report; nothing where all do."""
    rows = [row for row in answer.run.rows if row.judged]
    known: dict[str, list[float | None]] = {
        "tokens": [row.tokens for row in rows],
        "steps": [row.steps for row in rows],
        **({"wall time": [row.wall_ms for row in rows]} if recorded(answer) else {}),
    }
    lack = {name: values.count(None) for name, values in known.items() if None in values}
    found = []
    if lack:
        parts = ", ".join(name if n == len(rows) else f"{name} of {n:,} of {len(rows):,}" for name, n in lack.items())
        without = (
            " Therefore no Success@budget, no budget proof and no comparison of tokens." if "tokens" in lack else ""
        )
        found.append(f"Not told by the judged episodes: {parts}.{without}")
    if recorded(answer) and "tokens" not in lack:
        found.append("No budget is on file: no Success@budget and no budget proof.")
    return found


def _decision(answer: Answer) -> str:
    if not answer.verdicts:
        return ""
    verdict = answer.verdicts[0]
    statics = [name for name, role in answer.roles.items() if role is ArmRole.STATIC]
    means = meaning_of(verdict, statics)
    return f"By the rule fixed in advance: {verdict.decision}" + (f": {means}" if means else ".")


def _facts(answer: Answer, read: Sequence[Path]) -> list[str]:
    run = answer.run
    tasks = len({row.task_id for row in run.rows})
    clusters = len({row.cluster for row in run.rows if row.judged})
    seeds = len({row.seed for row in run.rows})
    kind = "exploratory, because choices were made on this split" if answer.exploratory else "held out"
    kind = "verdicts of others, imported" if recorded(answer) else kind
    facts = [
        f"{run.suite}/{run.split} ({kind}), suite digest {run.suite_digest[:12]}; "
        f"{tasks} tasks in {clusters} clusters, {seeds} seed{'s' * (seeds != 1)}, {len(run.rows)} episodes."
    ]
    if answer.missing_episodes:
        facts.append(f"Unfinished: {answer.missing_episodes} of {run.planned} planned episodes are missing.")
    facts += _untold(answer)
    facts += alike((arm.arm for arm in answer.arms), answer.run.rows)
    if not recorded(answer) and (binds := budget_binds(read)):
        facts.append(binds)
    if answer.verdicts:
        verdict = answer.verdicts[0]
        source = {"dev": "chosen before, on dev", "same data": "chosen on these very tasks"}
        if verdict.best_static:
            facts.append(f"Best static topology: {verdict.best_static}, {source[verdict.best_static_from]}.")
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
    ours = not recorded(answer)
    table = Table(
        "Arms",
        ("arm", "tasks", "solved", "95 % interval", "tokens", "steps", "switches", "aborted", "overfit"),
        tuple(
            (
                arm.arm,
                str(arm.tasks),
                percent(arm.success),
                f"{percent(arm.interval.low)} to {percent(arm.interval.high)}",
                number(arm.tokens, "{:,.0f}"),
                number(arm.steps, "{:.1f}"),
                f"{arm.switches:.2f}" if ours else UNTOLD,
                f"{arm.aborted:.2f}" if ours else UNTOLD,
                percent(arm.overfit) if ours else UNTOLD,
            )
            for arm in answer.arms
        ),
        (
            "solved: share of judged tasks within the token budget. tokens, steps, switches, aborted: means per episode.",
            "overfit: share of episodes that pass the visible tests and fail the hidden ones.",
        )
        if ours
        else (
            "solved: share of judged tasks.",
            *(f"{name}: means per episode, {UNTOLD} where some do not tell." for name in _told_of(answer)),
        ),
    )
    return told(table)


def _told_of(answer: Answer) -> list[str]:
    means = {"tokens": [arm.tokens for arm in answer.arms], "steps": [arm.steps for arm in answer.arms]}
    return [name for name, values in means.items() if any(value is not None for value in values)]


def conduct(answer: Answer) -> Table:
    """How arms behaved: both denominators, denials, budgets, latencies; no rows for what ran elsewhere."""
    head = ("arm", "infra", "solved of all", "denied", "over budget", "messages", "decision p95", "switch p95")
    timed = any(latency.get("switch_ms", 0.0) > 0.0 for latency in answer.latencies.values())
    table = Table(
        "Conduct",
        head,
        () if recorded(answer) else tuple(_conduct_of(arm, answer, timed) for arm in answer.arms),
        (
            "infra: episodes that could not be run; solved of all: counts them as failures. denied: calls per episode.",
            "over budget: episodes that spent more than their budget, the one-sided 95 % bound on that rate, and their "
            "mean excess. messages: share of tokens that came from other agents.",
            "decision p95: wall time." + (" switch p95: episode time." if timed else ""),
            *((UNTIMED,) if not timed and any(arm.switches for arm in answer.arms) else ()),
        ),
    )
    return told(table)


def _conduct_of(arm: ArmSummary, answer: Answer, timed: bool) -> tuple[str, ...]:
    latency = answer.latencies.get(arm.arm, {})
    return (
        arm.arm,
        f"{arm.infrastructure} of {arm.episodes}",
        percent(arm.success_of_all),
        f"{arm.denied:.2f}",
        _safety(arm),
        percent(arm.message_share),
        f"{latency['decision_ms']:.3f} ms" if "decision_ms" in latency else "-",
        UNTOLD if not timed else f"{latency['switch_ms']:.1f} ms" if "switch_ms" in latency else "-",
    )


def _safety(arm: ArmSummary) -> str:
    if arm.safety is None:
        return "-"
    excess = f", by {arm.safety.mean_overspend:,.0f} tokens" if arm.safety.violations else ""
    return f"{arm.safety.violations} (≤ {100 * arm.safety.upper:.2f} %{excess})"


def headline(answer: Answer) -> str:
    """The arm whose lifts come first; empty without lifts."""
    return answer.verdicts[0].arm if answer.verdicts else answer.lifts[0].arm if answer.lifts else ""


def further(answer: Answer) -> list[str]:
    """The other arms that lifts are told of."""
    return list(dict.fromkeys(lift.arm for lift in answer.lifts if lift.arm != headline(answer)))


def lifts(answer: Answer, *, page: bool = False) -> Table:
    """Paired lifts of the headline's arm, with notes that explain them; verdicts on further arms, and where their lifts are."""
    shown = [lift for lift in answer.lifts if lift.arm == headline(answer)]
    methods = _methods(shown)
    pairs = f"{shown[0].judged_pairs:,} pairs of {shown[0].tasks:,} tasks: " if shown else ""
    notes = [
        f"intervals: {'; '.join(methods)}. McNemar: mid-p, tasks independent. Holm: over all but the verdict's own "
        "comparisons, which need none because all of them must hold.",
        "detectable: smallest true lift that so many tasks show with 80 % power at the discordance observed."
        + (
            " none: the two arms differ on so few tasks that no lift would be shown with that power."
            if any(not lift.detectable for lift in shown)
            else ""
        ),
        f"pairs: of task and seed, judged of planned. {pairs}seeds are averaged within a task, and tasks are what is counted.",
        *(verdict.sentence for verdict in answer.verdicts[1:]),
    ]
    if (others := further(answer)) and not page:
        count = sum(lift.arm in others for lift in answer.lifts)
        notes.append(
            f"{count} more lifts, of {', '.join(others)}: apex report RUN --format html --figures DIR has them on the "
            "page and in forest.csv."
        )
    return _lifts("Paired lifts", shown, answer, notes)


def _methods(shown: Sequence[Lift]) -> list[str]:
    """The methods of intervals, those that differ in a count of clusters alone as one."""
    counts: dict[str, set[int]] = {}
    for lift in shown:
        method = lift.interval.method
        found = DIFFERING.search(method)
        counts.setdefault(DIFFERING.sub("arms differ in {}", method), set()).update({int(found[1])} if found else ())
    spans = {stem: f"{min(n)} to {max(n)}" if len(n) > 1 else str(*n) for stem, n in counts.items()}
    return sorted(stem.replace("arms differ in {}", f"arms differ in {span} clusters") for stem, span in spans.items())


def further_lifts(answer: Answer) -> Table:
    """Those of all other arms."""
    return _lifts("Paired lifts of further arms", [x for x in answer.lifts if x.arm in further(answer)], answer, ())


def _lifts(title: str, shown: Sequence[Lift], answer: Answer, notes: Sequence[str]) -> Table:
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
    return Table(title, head, tuple(_lift(lift, answer) for lift in shown), tuple(notes))


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
        p_text(lift.p_mid),
        "-" if adjusted is None else p_text(adjusted),
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
    if recorded(answer):
        limits.append("One suite: other tasks may rank the systems otherwise.")
    else:
        limits.append(
            "One suite, one source of answers, one budget: other tasks and budgets may rank the arms otherwise."
        )
    return limits


def _commands(answer: Answer, runs: Sequence[Path], options: str) -> tuple[str, ...]:
    folders = " ".join(quote(path.as_posix()) for path in runs)
    commands = [*(c for c in answer.run.command.split("; ") if c), f"apex report {folders}{options}"]
    names = [arm.arm for arm in answer.arms]
    if not answer.verdicts and len(names) > 1:
        commands.append(f"apex compare {folders} --arm {quote(names[0])} --against {quote(names[1])}    # or any two")
    if answer.next_command and answer.verdicts[0].word == "INCONCLUSIVE":
        commands.append(f"{answer.next_command}    # to learn more")
    return tuple(commands)
