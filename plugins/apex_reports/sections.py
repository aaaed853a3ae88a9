"""Sections of the HTML page, in the order in which a reader asks: what, how sure, why, at what cost, can I trust it."""

from __future__ import annotations

from apex_framework.analysis import points

from . import account, arms, costs, paired, switching
from .cells import Table, number, recorded
from .findings import Episode, Findings
from .parts import SENTENCE, drawing, listed, paragraph, pre, table
from .plain import markup
from .timeline import decision_sheet, switch_sheet

Section = tuple[str, str, str]
"""Id, title, HTML."""

CHECKED = {account.HOLDS: "holds", account.FAILS: "fails", account.OPEN: "open"}


def all_of(found: Findings) -> list[Section]:
    """All sections; one without a body is left out by the page."""
    return [
        ("in-short", "In short", _in_short(found)),
        ("arms", "Arms", _arms(found)),
        (
            "lifts",
            "Paired lifts",
            drawing(found.forest, inside=False)
            + table(paired.lifts(found.answer, page=True), titled=False)
            + _further(found),
        ),
        ("budgets", "Success@budget", drawing(found.curve, titled=False)),
        ("flipped", "Tasks won and lost", _flips(found)),
        ("switching", "When and why it switched", _switching(found)),
        ("episodes", "Timelines of episodes", "".join(_episode(e, i == 0) for i, e in enumerate(found.episodes))),
        (
            "proof",
            "Budget proof",
            drawing(found.budget) + table(costs.proof(found.answer, found.proofs, found.observed)),
        ),
        ("overheads", "Overheads", _overheads(found)),
        ("failures", "Failures", _failures(found)),
        ("leakage", "Leakage checks", table(account.leakage(found.answer, found.observed), CHECKED, titled=False)),
        ("deviations", "Deviations from the plan", _deviations(found)),
        ("again", "Do it again", _again(found)),
    ]


def verdict(found: Findings) -> str:
    """The box at the top."""
    word, _, rest = found.content.verdict.partition(":")
    verdicts = found.answer.verdicts
    cls = word.lower() if word in ("BETTER", "WORSE", "INCONCLUSIVE") else "none"
    spans, decision = "", ""
    if verdicts:
        lifts = [x for x in verdicts[0].lifts if x.against == verdicts[0].best_static] or list(verdicts[0].lifts)
        if lifts:
            least = min(lifts, key=lambda lift: lift.estimate)
            span = f"{points(least.interval.low)} to {points(least.interval.high)}"
            level = f"{100 * least.interval.confidence:g} % interval"
            budget = f", {found.content.budget}" * bool(found.content.budget)
            words = f"{points(least.estimate)} over {least.against}, {level} {span}, {least.tasks} tasks{budget}"
            spans = f'<p class="interval">{markup(words)}</p>'
        decision = f"<p>{markup(found.content.decision, 2_000)}</p>" * bool(found.content.decision)
    early = found.content.early_look
    missing = f'<p class="warn"><strong>{markup(early, 2_000)}</strong></p>' if early else ""
    if found.answer.missing_episodes:
        count = f"{found.answer.missing_episodes:,} of {found.answer.run.planned:,}"
        missing += f'<p class="warn"><strong>Not finished:</strong> {count} planned episodes are missing.</p>'
    if found.content.same:
        return _registered(found) + missing
    return (
        f'{_registered(found)}{missing}<div class="verdict {cls}" id="verdict" tabindex="-1"><p class="word">{markup(word)}</p>{spans}'
        f'<p>{markup(_sentence(rest, verdicts[0].arm if verdicts else ""), 2_000)}</p>{decision}<p class="level">{markup(found.content.level)}</p></div>'
    )


def _registered(found: Findings) -> str:
    """The decision of the experiment that the run belongs to, above everything that is this run's alone."""
    decided = found.content.registered
    if decided is None:
        return ""
    cls = {"GO": "better", "KILL": "worse"}.get(decided.word, "inconclusive")
    same = found.content.same
    rest = f"<p>{markup(decided.rest, 2_000)}</p>" if decided.rest else ""
    level = f'<p class="level">{markup(found.content.level)}</p>' if same else ""
    box = (
        f'<div class="verdict {cls}" id="decision"><p class="word">{markup(decided.word)}</p>'
        f"<p>By the registered rule: {markup(decided.sentence, 2_000)}</p>{rest}{listed(decided.facts)}{level}</div>"
    )
    return f'<div id="verdict" tabindex="-1">{box}</div>' if same else f'{box}<p class="level">This run by itself:</p>'


def _sentence(words: str, arm: str) -> str:
    """With a capital, unless it begins with a name."""
    words = words.strip()
    return words if arm and words.startswith(arm) else words[:1].upper() + words[1:]


def _in_short(found: Findings) -> str:
    return (
        listed(found.content.facts)
        + table(paired.rests(found.answer))
        + "<h3>What this does not show</h3>"
        + listed(found.content.limits)
        + "<h3>Words</h3>" * bool(found.content.words)
        + listed(found.content.words)
    )


def _arms(found: Findings) -> str:
    return (
        table(arms.arms(found.answer), titled=False) + listed(found.content.roles) + table(arms.families(found.answer))
    )


def _further(found: Findings) -> str:
    rest = paired.further_lifts(found.answer)
    if not rest.rows:
        return ""
    words = f"{len(rest.rows)} paired lifts of further arms: {', '.join(paired.further(found.answer))}"
    return f"<details><summary>{markup(words, 2_000)}</summary>{table(rest, titled=False)}</details>"


def _flips(found: Findings) -> str:
    if found.flips is None:
        return ""
    figure, named = found.flips
    head = ("against", "won", "lost")
    return drawing(figure, inside=False) + table(Table("Which tasks", head, named), words=True)


def _switching(found: Findings) -> str:
    tables = switching.tables(found.answer, found.observed)
    if not tables and recorded(found.answer):
        return ""
    lacking = "".join(paragraph(sentence) for sentence in switching.unfiled(found.answer, found.observed))
    if not tables:
        return lacking or paragraph(
            "No arm of these runs wished to switch."
            if any(seen.decisions for seen in found.observed.arms.values())
            else "No episode counts a switch; what was wished for is not on file."
        )
    return lacking + drawing(found.when) + "".join(table(t) for t in tables)


def _episode(episode: Episode, opened: bool) -> str:
    row = episode.row
    switches = f"{row.switches} switch{'es' * (row.switches != 1)}" + (
        f", {row.aborted} aborted" if row.aborted else ""
    )
    outcome = "solved" if row.success else "not solved"
    told = (
        f"{row.arm} on {row.task_id}, seed {row.seed}: {outcome}, {switches}, {number(row.steps, '{}')} steps, "
        f"{number(row.tokens, '{:,}')} tokens"
    )
    legend = (
        "Columns follow the order of events. Thick bars: a message in an agent's hands; thin ones: passed on by a relay. Arrows: "
        "messages, dashed on the way to somebody else. Below a switch P, Q and C or A: PREPARE, QUIESCE, COMMIT or ABORT. "
        "Diamonds: decisions, filled where another topology was wished for; a ring marks the score of what was chosen. A "
        "red cross: a message that nobody handled. Strips: features, the darker the larger, from one decision to the next."
    )
    sheets = [
        Table("Switches", *_sheet(switch_sheet(episode.shown))),
        Table("Decisions", *_sheet(decision_sheet(episode.shown))),
    ]
    return (
        f'<details class="episode" name="episode"{" open" if opened else ""}><summary>{markup(told)}</summary>'
        f"{paragraph(f'Chosen as {episode.why}.')}{drawing(episode.figure, fit=False, inside=False, titled=False)}"
        f'<div class="notes">{paragraph(legend)}</div>'
        f'<details class="numbers"><summary>Switches and decisions of this episode as tables</summary>'
        f"{''.join(table(sheet) for sheet in sheets if sheet.rows)}</details></details>"
    )


def _sheet(
    sheet: tuple[tuple[str, ...], tuple[tuple[object, ...], ...]],
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    head, rows = sheet
    return head, tuple(
        tuple(f"{c:.3f}".rstrip("0").rstrip(".") if isinstance(c, float) else str(c) for c in r) for r in rows
    )


def _overheads(found: Findings) -> str:
    return table(costs.overheads(found.answer, found.observed), titled=False) + table(
        costs.phases(found.answer, found.observed)
    )


def _failures(found: Findings) -> str:
    return table(costs.failures(found.answer)) + table(costs.endings(found.answer, found.observed))


def _deviations(found: Findings) -> str:
    sentences = account.deviations(found.answer, found.told, found.observed, found.rungs)
    return listed(sentences) if sentences else paragraph("None that the files tell of.")


def _again(found: Findings) -> str:
    return pre(found.content.commands) + "".join(
        table(t, words=True, longest=SENTENCE) for t in account.reproduction(found.told)
    )
