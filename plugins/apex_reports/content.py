"""What every report says, whatever its form: paragraphs, tables, commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from apex_framework.analysis import Answer, ArmRole, RunData, answer_runs, no_verdict, read_run
from apex_framework.analysis.rungs import apart_by_budget
from apex_framework.analysis.verdict import GO_LIFT

from .arms import arms, conduct, families
from .cells import Table, counted, percent, plainly, recorded
from .decision import meaning_of
from .lines import run_facts
from .outcomes import alike, budget_binds
from .paired import lifts, rests
from .plain import plain
from .registered import Registered, registered_of
from .rungs import budget_told, budgets_of, success_at_budget
from .words import question, roles_told, words_told

LEVELS = {
    "L0": "mechanism tests: nothing about success",
    "L1": "a simulator: nothing about executed tasks",
    "L2": "tasks that were really executed, solved by a rule-based program: nothing about language models",
    "L3": "replays of recorded traces: what was recorded, not what another topology would have done",
    "L4": "a live language model",
}
"""Rungs of the claim ladder; only L4 answers the question for language models."""

BEST_STATIC = {
    "dev": "chosen before, on dev",
    "plan": "named by the run's plan, which was not registered",
    "option": "named by --best-static",
    "same data": "chosen on these very tasks",
}
"""Where the best static topology is from, in words."""


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
    """By the rule fixed in advance, or APEX's where none was; empty where there is no verdict, or the registered one is the same."""
    registered: Registered | None = None
    """Where the run belongs to an experiment that has decided."""
    same: bool = False
    """Whether the registered decision rests on the run's own verdict, which then needs no second telling."""
    early_look: str = ""
    """Where it is an unregistered look: says so, above everything."""
    unfinished: str = ""
    """What is missing, where episodes are: stands first, too."""
    question: str = ""
    """What is asked, for who does not know."""
    roles: tuple[str, ...] = ()
    """What arms of each kind are."""
    words: tuple[str, ...] = ()
    """What the words of the verdict mean."""
    budget: str = ""
    """What an episode may spend, and which budget decides where there are several; empty where none is on file."""


def content_of(runs: Sequence[Path], best_static: str = "") -> Content:
    """The content for one or more run folders. Raises ArtifactError, NotComparableError, UnknownNameError."""
    options = f" --best-static {quote(best_static)}" if best_static else ""
    read, rungs = apart_by_budget([read_run(run) for run in runs])
    answer = answer_runs([run.path for run in read], best_static=best_static)
    return content_from(answer, runs, rungs, options)


def content_from(answer: Answer, runs: Sequence[Path], rungs: Sequence[RunData], options: str = "") -> Content:
    """The content of an answer to the ``runs`` that were named, some of them ``rungs`` at other budgets.

    ``options`` are those of ``apex report``. Every text is ``plain``. Raises ArtifactError.
    """
    level = answer.run.level or "L?"
    ladder = success_at_budget(answer, rungs)
    tables = (rests(answer), arms(answer), ladder, lifts(answer), families(answer), conduct(answer))
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
        facts=tuple(plain(fact, 2_000) for fact in _facts(answer, rungs)),
        tables=tuple(plainly(table) for table in tables if table.rows),
        limits=tuple(plain(limit, 2_000) for limit in _limits(answer, rungs)),
        commands=tuple(plain(command, 4_000) for command in _commands(answer, runs, options)),
        # Another lift was registered: a second decision by the usual one would only contradict.
        decision="" if same or (registered and registered.claim != GO_LIFT) else plain(_decision(answer), 2_000),
        registered=registered,
        same=same,
        early_look=plain(answer.run.early_look, 2_000),
        unfinished=f"Unfinished: {answer.missing_episodes:,} of {answer.run.planned:,} planned episodes are missing."
        * bool(answer.missing_episodes),
        question=question(answer),
        roles=roles_told(answer),
        words=words_told(answer, registered.claim if registered else GO_LIFT),
        budget=plain(_budget(answer, rungs), 2_000),
    )


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
    rule = "the rule fixed in advance" if _locked(answer) else "APEX's default rule (this run was not registered)"
    return f"By {rule}: {verdict.decision}" + (f": {means}" if means else ".")


def _locked(answer: Answer) -> bool:
    """Whether the run is of a plan that was registered before its first episode."""
    experiment = answer.run.settings.get("experiment")
    return isinstance(experiment, dict) and bool(experiment.get("registered"))


def _budget(answer: Answer, rungs: Sequence[RunData]) -> str:
    told = budget_told(answer)
    if not told or not rungs:
        return told
    others = " and ".join(f"{budget:,}" for budget in budgets_of(rungs))
    return f"{told}; what was solved with {others} is in Success@budget alone"


def _facts(answer: Answer, rungs: Sequence[RunData]) -> list[str]:
    run = answer.run
    tasks = len({row.task_id for row in run.rows})
    clusters = len({row.cluster for row in run.rows if row.judged})
    seeds = len({row.seed for row in run.rows})
    kind = "exploratory, because choices were made on this split" if answer.exploratory else "held out"
    kind = "imported verdicts" if recorded(answer) else kind
    facts = [
        f"{run.suite}/{run.split} ({kind}), suite digest {run.suite_digest[:12]}; "
        f"{counted(tasks, 'task')} in {counted(clusters, 'cluster')}, {counted(seeds, 'seed')}, "
        f"{counted(len(run.rows), 'episode')}."
    ]
    facts += _untold(answer)
    facts += alike((arm.arm for arm in answer.arms), answer.run.rows)
    if not recorded(answer):
        told = [f"The budget: {budget}." for budget in [_budget(answer, rungs)] if budget]
        facts += [" ".join([*told, *filter(None, [budget_binds(answer.run.rows)])])]
    if answer.verdicts:
        verdict = answer.verdicts[0]
        if verdict.best_static:
            facts.append(f"Best static topology: {verdict.best_static}, {BEST_STATIC[verdict.best_static_from]}.")
    if answer.oracle_static is not None:
        repeated = answer.repeated_static
        luck = f"; the best static run three times: {percent(repeated)}" if repeated is not None else ""
        facts.append(f"Oracle static (hindsight, an upper bound, partly luck): {percent(answer.oracle_static)}{luck}.")
    return facts


def _limits(answer: Answer, rungs: Sequence[RunData]) -> list[str]:
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
    limits += answer.run.caveats
    if answer.exploratory:
        limits.append("An exploratory split suggests; only the held-out one confirms.")
    if answer.verdicts and not _locked(answer):
        limits.append("Nothing was registered: arms, tasks and rule could have been chosen after a look at results.")
    source = answer.verdicts[0].best_static_from if answer.verdicts else ""
    if source == "same data":
        limits.append("The best static topology was picked on the tasks it is compared on, which flatters it.")
    elif source in ("option", "plan"):
        limits.append(
            f"The best static topology was {BEST_STATIC[source]}; if it was picked on the tasks it is compared on, that "
            "flatters it."
        )
    clusters = {row.cluster for row in answer.run.rows if row.judged}
    if len(clusters) < 30:
        limits.append(
            f"Only {counted(len(clusters), 'cluster')}: intervals of lifts come from sign flips of whole clusters."
        )
    if recorded(answer):
        limits.append("One suite: other tasks may rank the systems otherwise.")
    elif rungs:
        limits.append("One suite, one source of answers: other tasks and budgets may rank the arms otherwise.")
    else:
        limits.append(
            "One suite, one source of answers, one budget: other tasks and budgets may rank the arms otherwise."
        )
    return limits


def _commands(answer: Answer, runs: Sequence[Path], options: str) -> tuple[str, ...]:
    folders = " ".join(quote(path.as_posix()) for path in runs)
    facts = [run_facts(run) for run in runs]
    made = dict.fromkeys(str(fact.get("again") or fact.get("command") or "") for fact in facts)
    commands = [*filter(None, made), f"apex report {folders}{options}"]
    names = [arm.arm for arm in answer.arms]
    if not answer.verdicts and len(names) > 1:
        commands.append(f"apex compare {folders} --arm {quote(names[0])} --against {quote(names[1])}    # or any two")
    if answer.next_command and answer.verdicts[0].word == "INCONCLUSIVE" and answer.verdicts[0].decision != "KILL":
        commands.append(f"{answer.next_command}    # to learn more")
    return tuple(commands)
