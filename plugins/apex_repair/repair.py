"""The answer to ``repair``: the most likely single edits that were not tried, best first."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product
from random import Random

from apex_framework.interfaces.prompting import Candidate, Edit, Kind, Prompt, tried_line

from .evidence import Evidence, Tried, normal
from .fragment import Fragment, Site, read_fragment
from .hints import Hints, read_hints
from .names import Names
from .operators import expression_edits
from .proposal import Proposal
from .ranking import REPEAT, Suspicion, score
from .statements import guards, mined_returns, missing_returns

MOST_CANDIDATES = 20
_LOOKED_AT = 600
"""Best proposals that an answer may reach."""
_WINDOW = 60
"""Best proposals among which variety decides."""
_PAIRS_PER_BASE = 12
"""Pairs tried with one improving edit before another one is built upon."""
_MARKS = frozenset(("<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"))


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
    most = max(1, min(prompt.candidates, MOST_CANDIDATES))
    seen = {t.key for t in evidence.tried}
    base = _improving(ranked, evidence.tried)
    ranked = ranked[:_LOOKED_AT]
    found = list(islice(_pairs(base, ranked, seen), max(1, most - 1))) if base else []
    return found + list(islice(_singles(ranked, seen), most - len(found)))


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


def _fits(candidate: Candidate) -> bool:
    """Whether the candidate survives being written down: no line of it is a mark of the answer's form."""
    lines = [line.rstrip() for e in candidate.edits for text in (e.search, e.replace) for line in text.split("\n")]
    return _MARKS.isdisjoint(lines)


def _singles(ranked: list[Scored], seen: set[str]) -> Iterator[Candidate]:
    """The best untried, with a view to variety: a line and operator already in the answer counts less."""
    left, taken = list(ranked), Counter[tuple[str, int, str]]()
    while left:
        best = max(range(min(len(left), _WINDOW)), key=lambda i: left[i].score * REPEAT ** taken[_spot(left[i])])
        chosen = left.pop(best)
        edit = chosen.source.apply(chosen.proposal.splices)
        candidate = Candidate((edit,), f"{chosen.proposal.operator}: {chosen.proposal.why}")
        key = _key(candidate)
        if key not in seen and _fits(candidate) and chosen.source.parses_with(edit):
            taken[_spot(chosen)] += 1
            yield candidate
        seen.add(key)


def _spot(scored: Scored) -> tuple[str, int, str]:
    return scored.source.path, scored.source.first + scored.proposal.row, scored.proposal.operator


def _improving(ranked: list[Scored], tried: tuple[Tried, ...]) -> Scored | None:
    """The single edit that raised the number of passing tests most and is not worn out as a base for pairs."""
    for best in sorted((t for t in tried if t.improved and len(t.places) == 1), key=lambda t: t.before - t.after):
        pairs = sum(best.places[0] in t.places and len(t.places) > 1 for t in tried)
        for scored in ranked if pairs < _PAIRS_PER_BASE else ():
            if scored.source.first + scored.proposal.splices[0].row == best.places[0][1]:
                edit = scored.source.apply(scored.proposal.splices)
                if _key(Candidate((edit,))) == best.key:
                    return scored
    return None


def _pairs(base: Scored, ranked: list[Scored], seen: set[str]) -> Iterator[Candidate]:
    """The improving edit together with a second one."""
    first = base.source.apply(base.proposal.splices)
    for scored in ranked:
        edits = _together(base, first, scored)
        if not edits:
            continue
        candidate = Candidate(edits, f"also {scored.proposal.operator}: {scored.proposal.why}")
        key = _key(candidate)
        last = edits[0] if len(edits) == 1 else scored.source.apply(scored.proposal.splices)
        if key not in seen and _fits(candidate) and scored.source.parses_with(last):
            yield candidate
        seen.add(key)


def _together(base: Scored, first: Edit, other: Scored) -> tuple[Edit, ...]:
    """Two edits as one candidate, the lower first so that the upper keeps its line; empty when they touch the same text."""
    mine, theirs = base.proposal.splices, other.proposal.splices
    second = other.source.apply(theirs)
    if other.source is base.source:
        for a, b in product(mine, theirs):
            if (a.row, a.column) <= (b.end_row, b.end_column) and (b.row, b.column) <= (a.end_row, a.end_column):
                return ()
        if first.line <= _last(second) and second.line <= _last(first):
            return (base.source.apply(mine + theirs),)
    return tuple(sorted((first, second), key=lambda e: -e.line))


def _last(edit: Edit) -> int:
    return edit.line + edit.search.count("\n")
