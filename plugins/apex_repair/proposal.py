"""A possible edit."""

from __future__ import annotations

from dataclasses import dataclass

from .fragment import Fragment, Located, Splice


@dataclass(frozen=True, slots=True)
class Proposal:
    """A possible edit: where, by which operator, and how likely among those of its operator (0 to 1)."""

    row: int
    splices: tuple[Splice, ...]
    operator: str
    weight: float
    why: str
    name: str = ""
    """The name that goes away, of a wrong-name edit."""


def replacing(source: Fragment, node: Located, operator: str, weight: float, text: str) -> Proposal:
    """The proposal of a text in the place of a node."""
    old = source.text(node)
    return Proposal(source.row(node), (source.over(node, text),), operator, weight, f"{brief(old)} -> {brief(text)}")


def brief(text: str) -> str:
    """A source text as a few characters of one line."""
    text = " ".join(text.split())
    return text if len(text) <= 24 else text[:21] + "..."
