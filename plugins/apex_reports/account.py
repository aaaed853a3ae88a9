"""Leakage checks, deviations from the plan, and what it takes to make the same run again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apex_framework.analysis import Answer
from apex_framework.errors import ArtifactError

from .cells import Table, counted, recorded
from .lines import lines
from .observed import Observed

DEVIATIONS = "deviations.jsonl"
"""Beside the run folders of an experiment: what was done otherwise than registered."""
HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be told"
CACHES = ("plan_cache", "replay")
"""The interceptor and the model backend that answer calls with what was kept."""


@dataclass(frozen=True, slots=True)
class Told:
    """A run folder and its run.json."""

    path: Path
    facts: Mapping[str, Any]

    @property
    def plan(self) -> Mapping[str, Any]:
        """What was planned."""
        plan: Mapping[str, Any] = self.facts["plan"]
        return plan

    def table(self, name: str, inside: str = "") -> Mapping[str, Any]:
        """A table of run.json, or of the plan. Raises ArtifactError when it is something else."""
        value = (self.plan if inside else self.facts).get(name) or {}
        if not isinstance(value, dict):
            raise ArtifactError(f"{self.path / 'run.json'}: {name} is no table", "start a new run")
        return value

    def listed(self, name: str) -> Sequence[Any]:
        """A list of run.json. Raises ArtifactError when it is something else."""
        value = self.facts.get(name) or []
        if not isinstance(value, list):
            raise ArtifactError(f"{self.path / 'run.json'}: {name} is no list", "start a new run")
        return value


def leakage(answer: Answer, observed: Observed) -> Table:
    """What could make a result too good, checked in the run's own files."""
    rows = [
        _digests(answer),
        _same_tasks(answer),
        _held_out(answer),
        _best_static(answer),
        *_decisions(answer, observed),
        _policies(answer),
        _caches(answer),
        _overfit(answer),
    ]
    if recorded(answer):  # its own files tell nothing of what others did
        mine = _same_tasks(answer)
        rows = [row if row == mine else (row[0], OPEN, "not told: it ran elsewhere") for row in rows]
    return Table("Leakage checks", ("check", "result", "evidence"), tuple(rows))


def deviations(answer: Answer, told: Sequence[Told], observed: Observed, rungs: int) -> list[str]:
    """What was not as planned or as it should be, one sentence each."""
    found = []
    if answer.missing_episodes:
        found.append(
            f"{answer.missing_episodes:,} of {answer.run.planned:,} planned episodes are missing: the run is not finished."
        )
    lost = sum(arm.infrastructure for arm in answer.arms)
    if lost:
        found.append(f"{lost:,} episodes could not be run for infrastructure; both denominators are reported.")
    if observed.cut:
        found.append(f"{observed.cut:,} episodes were cut short by a shared ceiling and run again.")
    if len(told) - rungs > 1:
        found.append(f"{len(told) - rungs} run folders are read as one.")
    for path in dict.fromkeys(run.path.parent / DEVIATIONS for run in told):
        found += [f"{line.text('what')}. {line.text('why')}".strip() for line in lines(path)]
    for run in told:
        found += [
            f"{run.path}: {row['what']}." for row in run.listed("gone_on") if isinstance(row, dict) and "what" in row
        ]
        found += [f"{run.path}: a ceiling was raised after the plan: {raised}." for raised in run.listed("raised")]
        if recorded(answer):
            found.append(f"{run.path}: nothing was run; its verdicts were imported.")
        elif run.plan.get("real_time"):
            found.append(f"{run.path}: went by the machine's clock, so that seeds alone do not repeat it.")
    versions = {str(sorted(run.table("versions", "plan").items())) for run in told}
    if len(versions) > 1:
        found.append("The runs were made with different versions of software.")
    return found


def reproduction(told: Sequence[Told]) -> list[Table]:
    """One table per run folder: what it was made with."""
    return [_provenance(run, answered=len(told)) for run in told]


def _provenance(run: Told, answered: int) -> Table:
    plan, sandbox = run.plan, run.table("sandbox")
    tasks, seeds = plan.get("tasks") or [], plan.get("seeds") or []
    rows = [
        ("command", str(run.facts.get("command") or "not told")),
        ("settings that differ from the defaults", _pairs(run.table("settings"), "=") or "none told"),
        ("made", str(run.facts.get("created") or "not told")),
        ("run", str(run.facts.get("run_id") or "not told")),
        ("plan digest", str(run.facts.get("digest") or "not told")),
        ("suite", f"{plan.get('suite')}/{plan.get('split')}, {counted(len(tasks), 'task')}"),
        ("suite digest", str(plan.get("suite_digest") or "not told")),
        ("seeds", ", ".join(map(str, seeds)) or "not told"),
        ("versions", _pairs(run.table("versions", "plan"))),
        ("code", _pairs({name: str(digest)[:12] for name, digest in run.table("code").items()}) or "not told"),
        (
            "models",
            "; ".join(f"{name}: {_pairs(m)}" for name, m in run.table("models").items() if isinstance(m, dict))
            or "not told",
        ),
        ("policies", _pairs(run.table("policies", "plan")) or "none"),
        (
            "sandbox",
            f"{sandbox.get('name')}, level {sandbox.get('level')}, demanded {sandbox.get('demanded')} for {sandbox.get('for')}"
            if sandbox
            else "not told",
        ),
    ]
    if sandbox.get("lacks"):
        rows.append(("sandbox does not confine", ", ".join(map(str, sandbox["lacks"]))))
    rows.append(("manifest", _manifest(run.path)))
    title = "Made with" if answered == 1 else f"Made with: {run.path}"
    return Table(title, ("what", "value"), tuple(rows))


def _manifest(run: Path) -> str:
    try:
        return f"DONE, SHA-256 {hashlib.sha256((run / 'DONE').read_bytes()).hexdigest()}"
    except OSError:
        return "no DONE in the folder: nothing vouches for its files"


def _digests(answer: Answer) -> tuple[str, str, str]:
    digests = {row.suite_digest for row in answer.run.rows if row.suite_digest}
    bare = sum(not row.suite_digest for row in answer.run.rows)
    result = HOLDS if digests == {answer.run.suite_digest} and not bare else OPEN if not digests else FAILS
    return (
        "all episodes are of one version of the suite",
        result,
        f"{counted(len(digests), 'digest')}, {counted(bare, 'episode')} without",
    )


def _same_tasks(answer: Answer) -> tuple[str, str, str]:
    met: dict[str, set[tuple[str, int]]] = {}
    for row in answer.run.rows:
        met.setdefault(row.arm, set()).add((row.task_id, row.seed))
    short = [name for name, keys in met.items() if keys != set().union(*met.values())]
    evidence = (
        f"lacking some: {', '.join(short)}"
        if short
        else f"{len(met)} arms, {len(set().union(*met.values()))} pairs each"
    )
    return "all arms met the same tasks and seeds", FAILS if short else HOLDS, evidence


def _held_out(answer: Answer) -> tuple[str, str, str]:
    return (
        "the split is by its name a held-out one",
        FAILS if answer.exploratory else HOLDS,
        f"split {answer.run.split or '?'}; that nothing was chosen on it, no file can tell",
    )


def _best_static(answer: Answer) -> tuple[str, str, str]:
    source = answer.verdicts[0].best_static_from if answer.verdicts else ""
    result = {"dev": HOLDS, "same data": FAILS}.get(source, OPEN)
    evidence = {
        "dev": "named before, from dev",
        "plan": "named by the run's plan; where it was chosen, no file tells",
        "option": "named by --best-static; where it was chosen, no file tells",
        "same data": "picked on the tasks it is compared on",
    }
    return "the best static topology was chosen elsewhere", result, evidence.get(source, "none was named")


def _decisions(answer: Answer, observed: Observed) -> list[tuple[str, str, str]]:
    total = sum(c.decisions for c in observed.arms.values())
    unlogged = sum(c.unlogged for c in observed.arms.values())
    frozen = {n: c for n, c in observed.arms.items() if not answer.run.arms.get(n, {}).get("online")}
    explored = sum(c.explored for c in frozen.values())
    known = OPEN if not total else ""
    return [
        (
            "every decision has its probability on file",
            known or (FAILS if unlogged else HOLDS),
            f"{total - unlogged:,} of {total:,} decisions" if total else "no decisions on file",
        ),
        (
            "no controller explored, but those declared online",
            known or (FAILS if explored else HOLDS),
            f"{explored:,} of {sum(c.decisions for c in frozen.values()):,} decisions with a positive exploration rate"
            if total
            else "no decisions on file",
        ),
    ]


def _policies(answer: Answer) -> tuple[str, str, str]:
    found = answer.run.policies
    untrained = [name for name, digest in found.items() if digest == "untrained"]
    evidence = ", ".join(f"{name} {digest[:12]}" for name, digest in found.items()) or "no policies on file"
    return "trained policies are pinned by digest", FAILS if untrained else HOLDS if found else OPEN, evidence


def _caches(answer: Answer) -> tuple[str, str, str]:
    arms = answer.run.arms
    advised = [(arm, str(name)) for arm, said in arms.items() for name in said.get("interceptors") or ()]
    backends = [(arm, str(name)) for arm, said in arms.items() for name in (said.get("backends") or {}).values()]
    caches = [(arm, name) for arm, name in (*advised, *backends) if name.partition(":")[0] in CACHES]
    check = "no arm answers from a cache or a recording"
    if caches:
        return check, FAILS, "; ".join(f"{arm}: {name}" for arm, name in caches)
    if advised:
        names = ", ".join(dict.fromkeys(name for _, name in advised))
        return check, OPEN, f"whether interceptors answer calls, no file tells: {names}"
    told = bool(arms) and all("interceptors" in said for said in arms.values())
    return check, HOLDS if told else OPEN, "no interceptors" if told else "not told"


def _overfit(answer: Answer) -> tuple[str, str, str]:
    """Told by an episode that passed the visible tests and was not solved: without one, either might have decided."""
    rows = [row for row in answer.run.rows if row.judged]
    visible = sum(row.visible_passed for row in rows)
    wrong = sum(row.overfit for row in rows)
    evidence = f"{wrong:,} episodes passed the visible tests only; {visible:,} passed them"
    return "hidden tests decide", HOLDS if wrong else OPEN, evidence


def _pairs(table: Mapping[str, Any], between: str = " ") -> str:
    return ", ".join(f"{name}{between}{value}" for name, value in table.items())
