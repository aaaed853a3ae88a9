"""Progress on stderr: a live table on a terminal, one line per tenth elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ..analysis.intervals import wilson
from ..events import EpisodeFinished, EpisodeStarted, Event
from ..experiment.plan import looks_once

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ..experiment.artifacts import RunFolder

SHOWN_ARMS = 10
"""A line names each arm's successes up to so many arms."""
HIDDEN = "; successes stay hidden until the registered look"


class Progress(Protocol):
    """Takes events of a run and shows them."""

    def take(self, event: Event) -> None:
        """One event."""
        ...


@dataclass
class Tally:
    """Running totals of one arm."""

    planned: int
    done: int = 0
    success: int = 0
    tokens: int = 0
    denied: int = 0
    switches: int = 0
    failed: int = 0

    def add(self, record: Mapping[str, Any]) -> None:
        """Count one finished episode."""
        get = record.get
        self.done += 1
        if get("status") == "infrastructure":
            self.failed += 1
            return
        self.success += bool(get("success"))
        self.tokens += int(get("tokens", 0))
        self.denied += int(get("denied", 0))
        self.switches += int(get("switches", 0))

    @property
    def judged(self) -> int:
        """Episodes that count."""
        return self.done - self.failed


@dataclass
class Count:
    """What is known of a run in progress."""

    arms: dict[str, Tally]
    flying: dict[str, float] = field(default_factory=dict)
    """Episode -> when it started."""
    begun: float = field(default_factory=time.monotonic)
    before: int = 0
    """Episodes that were finished when the run was opened."""
    blind: bool = False
    """Whether successes stay hidden: the plan is registered for one look, when all episodes are there."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    """The live table is drawn by a thread of its own."""

    @classmethod
    def of(cls, folder: RunFolder) -> Count:
        """From an opened folder."""
        plan = folder.plan
        tallies = {arm.name: Tally(plan.size // len(plan.arms)) for arm in plan.arms}
        count = cls(tallies, before=len(folder.records), blind=looks_once(plan.settings))
        for record in folder.lines() if folder.records else ():
            count.arms[str(record["arm"])].add(record)
        return count

    def take(self, event: Event) -> None:
        """Count one event."""
        with self.lock:
            if isinstance(event, EpisodeStarted):
                self.flying[event.episode_id] = time.monotonic()
            elif isinstance(event, EpisodeFinished):
                self.flying.pop(event.episode_id, None)
                self.arms[str(event.record["arm"])].add(event.record)

    @property
    def done(self) -> int:
        """Finished episodes."""
        return sum(tally.done for tally in self.arms.values())

    @property
    def planned(self) -> int:
        """All episodes."""
        return sum(tally.planned for tally in self.arms.values())

    def left(self) -> str:
        """Remaining time at the speed so far."""
        new = self.done - self.before
        if not new:
            return "…"
        seconds = (time.monotonic() - self.begun) / new * (self.planned - self.done)
        return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


class Lines:
    """One line per finished tenth."""

    def __init__(self, console: Console, count: Count) -> None:
        self._console = console
        self._count = count
        self._tenth = count.done * 10 // max(1, count.planned)

    def take(self, event: Event) -> None:
        """Count, and speak when a tenth is full."""
        self._count.take(event)
        tenth = self._count.done * 10 // max(1, self._count.planned)
        if tenth > self._tenth:
            self._tenth = tenth
            arms = self._count.arms if len(self._count.arms) <= SHOWN_ARMS else {}
            if self._count.blind:
                rates = "".join(f", {name} {tally.done} done" for name, tally in arms.items()) + HIDDEN
            else:
                rates = "".join(f", {name} {tally.success}/{tally.judged}" for name, tally in arms.items())
            self._console.print(
                f"{self._count.done}/{self._count.planned} episodes, {self._count.left()} left{rates}", soft_wrap=True
            )


@contextmanager
def progress_on(console: Console, folder: RunFolder, workers: int) -> Iterator[Progress]:
    """Progress for as long as the run lasts."""
    count = Count.of(folder)
    if not console.is_terminal:
        yield Lines(console, count)
        return
    from rich.live import Live

    class View:
        def __rich__(self) -> Table:
            with count.lock:
                return table(count, workers)

    with Live(View(), console=console, refresh_per_second=4, transient=True):
        yield count


def table(count: Count, workers: int) -> Table:
    """The live table: one row per arm, then what the workers do."""
    from rich.table import Table

    shown = Table(title=f"{count.done}/{count.planned} episodes, {count.left()} left", title_justify="left")
    shown.add_column("arm")
    columns = (
        ("done", "not run", "denied") if count.blind else ("done", "success", "95 %", "tokens", "denied", "switches")
    )
    for name in columns:
        shown.add_column(name, justify="right")
    for name, tally in count.arms.items():
        if count.blind:
            shown.add_row(name, f"{tally.done}/{tally.planned}", str(tally.failed), str(tally.denied))
            continue
        judged = tally.judged
        rate = between = tokens = switches = "–"
        if judged:
            interval = wilson(tally.success, judged)
            rate = f"{100 * tally.success / judged:.0f} %"
            between = f"{100 * interval.low:.0f}–{100 * interval.high:.0f}"
            tokens, switches = f"{tally.tokens / judged:,.0f}", f"{tally.switches / judged:.1f}"
        shown.add_row(name, f"{tally.done}/{tally.planned}", rate, between, tokens, str(tally.denied), switches)
    now = time.monotonic()
    flying = [f"{name} ({now - since:.0f} s)" for name, since in list(count.flying.items())[:workers]]
    shown.caption = "\n".join(flying)
    shown.caption_justify = "left"
    return shown
