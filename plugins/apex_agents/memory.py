"""What an agent remembers: the messages since its last model call, and the latest facts of each kind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from apex_framework.interfaces import Message
from apex_framework.interfaces.prompting import Kind, Section, render_sections

from .speech import sections_of

WINDOW: Final = 5
"""Messages since the last model call that fit into the next prompt; older ones are lost."""

TRIED_LINES: Final = 24
"""Tried candidates that are remembered."""


@dataclass
class Memory:
    """Facts by kind. ``keeps`` names the kinds that outlast the next model call.

    Everything heard since the last call is fresh: it goes into the next prompt whether it is of use
    or not, because whoever receives a message pays for reading it.
    """

    keeps: frozenset[Kind]
    _fresh: list[tuple[Section, ...]] = field(default_factory=list)
    _kept: dict[tuple[Kind, str], Section] = field(default_factory=dict)
    _tried: dict[str, None] = field(default_factory=dict)

    def hear(self, message: Message) -> None:
        """Take in a message."""
        sections = sections_of(message)
        self._fresh = [*self._fresh, sections][-WINDOW:]
        self.note(sections)

    def note(self, sections: Iterable[Section]) -> None:
        """Keep facts of the kinds that this agent keeps; a later one replaces an earlier of the same kind and label."""
        for section in sections:
            if section.kind is Kind.TRIED:
                for line in section.body.splitlines():
                    self._tried.pop(line, None)
                    self._tried[line] = None
                while len(self._tried) > TRIED_LINES:
                    del self._tried[next(iter(self._tried))]
            elif section.kind in self.keeps:
                one_of_a_kind = section.kind in (Kind.SUSPICIOUS, Kind.CAUSE, Kind.FOCUS, Kind.SUMMARY, Kind.DIFF)
                label = "" if one_of_a_kind else section.label
                self._kept.pop((section.kind, label), None)
                self._kept[section.kind, label] = section

    def forget(self, kind: Kind) -> None:
        """Drop the kept facts of a kind."""
        self._kept = {key: s for key, s in self._kept.items() if key[0] is not kind}

    def of(self, kind: Kind) -> tuple[Section, ...]:
        """Kept facts of a kind, oldest first."""
        if kind is Kind.TRIED:
            return (Section(Kind.TRIED, "\n".join(self._tried)),) if self._tried and Kind.TRIED in self.keeps else ()
        return tuple(s for s in self._kept.values() if s.kind is kind)

    @property
    def tried(self) -> tuple[str, ...]:
        """Lines of tried candidates, oldest first, whether kept in prompts or not."""
        return tuple(self._tried)

    def recall(
        self, own: Iterable[Section] = (), *, about: tuple[str, int, int] | None = None
    ) -> tuple[tuple[Section, ...], str]:
        """Sections for the next prompt, and the text of those that came from other agents.

        ``own`` are the agent's private facts; ``about`` (path, first, last line) leaves out kept tried lines and
        suspicions that lie elsewhere. What was fresh is not fresh afterwards.
        """
        own = tuple(own)
        kept = [s for kind in Kind for s in self.of(kind)]
        if about is not None:
            kept = [s for s in (_nearby(s, *about) for s in kept) if s.body]
        fresh = [s for group in self._fresh for s in group if s.kind not in self.keeps]
        heard = list(dict.fromkeys(s for s in [*kept, *fresh] if s not in own))
        self._fresh = []
        return own + tuple(heard), render_sections(heard)


def _nearby(section: Section, path: str, first: int, last: int) -> Section:
    """Of tried and suspicious lines those that lie in a piece of source; other sections whole."""
    if section.kind not in (Kind.TRIED, Kind.SUSPICIOUS):
        return section
    lines = []
    for line in section.body.splitlines():
        at, _, number = line.split(" ")[0].rpartition(":")
        if at == path and number.isdigit() and first <= int(number) <= last:
            lines.append(line)
    return Section(section.kind, "\n".join(lines), section.label)
