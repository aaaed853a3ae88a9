"""The answer to ``repair``: the most likely single edits that were not tried, best first."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from apex_framework.interfaces.prompting import Candidate, Edit, Kind, Prompt, tried_line

from .evidence import Evidence, Tried, normal
from .fragment import Fragment, Site, read_fragment
from .hints import Hints, read_hints
from .names import Names
from .operators import Proposal, expression_edits
from .ranking import REPEAT, Suspicion, score
from .statements import guards, mined_returns, missing_returns

_LOOKED_AT = 400
"""Best proposals that are considered; the rest is never reached."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A proposal in its fragment with its score."""

    score: float
    source: Fragment
    proposal: Proposal


def repair(prompt: Prompt, evidence: Evidence, random: Random) -> list[Candidate]:
    """Up to ``prompt.candidates`` candidates, best first. Empty when no function shown can be read or all was tried."""
    fragments = [f for f in map(read_fragment, prompt.of(Kind.FUNCTION)) if f]
    hints = read_hints(evidence.text)
    ranked = [s for f in fragments for s in _scored(f, evidence, hints, random)]
    ranked.sort(key=lambda s: -s.score)
    ranked = ranked[:_LOOKED_AT]
    tried = {t.key for t in evidence.tried}
    improved = [t for t in evidence.tried if t.improved]
    base = _improving(ranked, improved)
    most = max(1, min(prompt.candidates, 20))
    found = list(_pairs(base, ranked, tried, most)) if base else []
    return found or list(_singles(ranked, tried, most))


def proposals(source: Fragment, missing: frozenset[str]) -> Iterator[tuple[Site | None, Proposal]]:
    """Every edit of the vocabulary in a fragment, with the site that it changes."""
    sites = list(source.sites())
    names = Names(sites)
    literals = frozenset(
        text
        for s in sites
        if isinstance(s.node, ast.Constant)
        and isinstance(s.node.value, (int, str))
        and not isinstance(s.node.value, bool)
        if len(text := source.text(s.node)) <= 16
    )
    returns = mined_returns(source, sites)
    for site in sites:
        for proposal in expression_edits(source, site, literals):
            yield site, proposal
        for proposal in names.edits(source, site, missing):
            yield site, proposal
        if isinstance(site.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for proposal in guards(source, site.node, returns):
                yield None, proposal
            for proposal in missing_returns(source, site.node):
                yield None, proposal


def _scored(source: Fragment, evidence: Evidence, hints: Hints, random: Random) -> Iterator[Scored]:
    suspicion = Suspicion(source, evidence)
    for site, proposal in proposals(source, hints.missing):
        row = end_row = proposal.row
        if site and not isinstance(site.statement, (ast.For, ast.While, ast.If, ast.With, ast.Try, ast.FunctionDef)):
            row, end_row = (
                source.row(site.statement),
                min(source.end_row(site.statement), source.row(site.statement) + 8),
            )
        yield Scored(score(proposal, suspicion.of(row, end_row), hints, random), source, proposal)


def _key(candidate: Candidate) -> str:
    return normal(tried_line(candidate, "").rpartition(" | ")[0])


def _singles(ranked: list[Scored], tried: set[str], most: int) -> Iterator[Candidate]:
    """The best untried, with a view to variety: a line and operator already in the answer counts less."""
    left, taken = list(ranked), Counter[tuple[str, int, str]]()
    seen = set(tried)
    while left and most:
        best = max(range(min(len(left), 4 * most + 20)), key=lambda i: left[i].score * REPEAT ** taken[_spot(left[i])])
        chosen = left.pop(best)
        edit = chosen.source.apply(chosen.proposal.splices)
        candidate = Candidate((edit,), f"{chosen.proposal.operator}: {chosen.proposal.why}")
        key = _key(candidate)
        if key not in seen and chosen.source.parses_with(edit):
            taken[_spot(chosen)] += 1
            most -= 1
            yield candidate
        seen.add(key)


def _spot(scored: Scored) -> tuple[str, int, str]:
    return scored.source.path, scored.source.first + scored.proposal.row, scored.proposal.operator


def _improving(ranked: list[Scored], improved: list[Tried]) -> Scored | None:
    """The proposal that raised the number of passing tests most, found again among the proposals."""
    for tried in sorted(improved, key=lambda t: t.before - t.after):
        for scored in ranked:
            if scored.source.first + scored.proposal.splices[0].row == tried.places[0][1]:
                edit = scored.source.apply(scored.proposal.splices)
                if _key(Candidate((edit,))) == tried.key:
                    return scored
    return None


def _pairs(base: Scored, ranked: list[Scored], tried: set[str], most: int) -> Iterator[Candidate]:
    """The improving edit together with a second one."""
    first = base.source.apply(base.proposal.splices)
    seen = set(tried)
    for scored in ranked:
        if not most:
            return
        edits = _together(base, first, scored)
        if not edits:
            continue
        candidate = Candidate(edits, f"also {scored.proposal.operator}: {scored.proposal.why}")
        key = _key(candidate)
        if key not in seen and all(
            base.source.parses_with(e) for e in edits if e.path == base.source.path and _inside(base.source, e)
        ):
            most -= 1
            yield candidate
        seen.add(key)


def _inside(source: Fragment, edit: Edit) -> bool:
    return source.first <= edit.line < source.first + len(source.lines)


def _together(base: Scored, first: Edit, other: Scored) -> tuple[Edit, ...]:
    """Two edits as one candidate; empty when they touch the same text."""
    if other.source is not base.source:
        return first, other.source.apply(other.proposal.splices)
    mine, theirs = base.proposal.splices, other.proposal.splices
    for a in mine:
        for b in theirs:
            if (a.row, a.column) <= (b.end_row, b.end_column) and (b.row, b.column) <= (a.end_row, a.end_column):
                return ()
    rows = {r for s in mine for r in range(s.row, s.end_row + 1)}
    if rows.isdisjoint(r for s in theirs for r in range(s.row, s.end_row + 1)):
        return first, other.source.apply(theirs)
    return (base.source.apply(mine + theirs),)
