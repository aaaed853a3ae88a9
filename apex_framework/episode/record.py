"""What an episode leaves behind: its line, and the rows of the side files. All JSON-ready.

Wall time appears only in columns that end in ``_ms``; everything else is the same for the same seed.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..budget import Ledger
from ..events import (
    BackendWarmed,
    CallAnswered,
    CallDenied,
    CallSettled,
    DecisionTaken,
    DirectCallBlocked,
    EffectInDoubt,
    Event,
    HealthPinned,
    LoopDetected,
    LoopStalled,
    MemoryPressure,
    MessageMoved,
    ModelLoaded,
    ModelUnloaded,
    OperationLogged,
    PlanCacheUsed,
    PressureChanged,
    SwitchFinished,
    ToolUsed,
    TopologyProbed,
)
from ..interfaces import EpisodeJob, Task, Verdict, Workspace
from ..session import SessionEnd
from .arm import Arm
from .watch import Watch

KEPT = (
    BackendWarmed,
    ToolUsed,
    TopologyProbed,
    HealthPinned,
    PressureChanged,
    LoopStalled,
    MemoryPressure,
    ModelLoaded,
    ModelUnloaded,
    CallAnswered,
    PlanCacheUsed,
    DirectCallBlocked,
    LoopDetected,
    EffectInDoubt,
)
"""Events whose rows are kept in events.jsonl."""


@dataclass
class Recorder:
    """Sorts events into the rows of decisions, switches, calls, tool calls and the message trace."""

    arm: str
    task_id: str
    seed: int
    decisions: list[dict[str, Any]] = field(default_factory=list)
    switches: list[dict[str, Any]] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    trace: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    ops: list[dict[str, Any]] = field(default_factory=list)

    def take(self, event: Event) -> None:
        """Keep an event where it belongs; kinds that have no file are left out."""
        if isinstance(event, MessageMoved):
            self.trace.append(self._row(event, keyed=False))
        elif isinstance(event, DecisionTaken):
            self.decisions.append(self._row(event))
        elif isinstance(event, SwitchFinished):
            self.switches.append(self._row(event))
        elif isinstance(event, CallSettled):
            self.calls.append(self._row(event))
        elif isinstance(event, CallDenied):
            self.calls.append({**self._row(event), "status": "denied"})
        elif isinstance(event, OperationLogged):
            self.ops.append(self._row(event))
        elif isinstance(event, KEPT):
            self.events.append(self._row(event))

    def _row(self, event: Event, *, keyed: bool = True) -> dict[str, Any]:
        row = asdict(event)
        row.pop("episode_id", None)
        key = {"arm": self.arm, "task_id": self.task_id, "seed": self.seed} if keyed else {}
        return {**key, "event": type(event).__name__, **row}


def episode_line(
    job: EpisodeJob,
    arm: Arm,
    task: Task,
    *,
    end: SessionEnd,
    verdict: Verdict,
    watch: Watch,
    ledger: Ledger,
    faults: Sequence[str],
    suite_digest: str,
    decision_ms: Sequence[float],
) -> dict[str, Any]:
    """The episode's line in episodes.jsonl."""
    broken = verdict.infrastructure_error or watch.unanswered
    return {
        "arm": arm.name,
        "task_id": task.id,
        "seed": job.seed,
        "success": verdict.success and not broken,
        "tokens": watch.tokens,
        "steps": watch.step,
        "switches": watch.switches,
        "denied": watch.denied,
        "status": "infrastructure" if broken else end.status,
        "reason": broken or end.reason,
        "visible_passed": verdict.visible_passed,
        "overfit": verdict.visible_passed and not verdict.success,
        "overspent": max(0, watch.tokens - arm.budget),
        "violations": len(ledger.violations),
        "aborted": watch.aborted,
        "calls": watch.calls,
        "failed_calls": watch.failed,
        "message_tokens": watch.message_tokens,
        "denied_tokens": watch.denied_tokens,
        "test_runs": watch.test_runs,
        "topologies": dict(sorted(watch.steps_in.items())),
        "budget": arm.budget,
        "cluster": task.cluster,
        "family": task.family,
        "suite_digest": suite_digest,
        "evaluator": verdict.evaluator,
        "faults": list(faults[:5]),
        "decision_ms": sorted(round(ms, 4) for ms in decision_ms),
    }


def written(task: Task, workspace: Workspace) -> str:
    """Unified diff between a task's files and the workspace, for workspaces that cannot say it themselves."""
    parts: list[str] = []
    for path, before in sorted(task.files.items()):
        file = workspace.root / path
        after = file.read_text() if file.is_file() else ""
        if after != before:
            lines = difflib.unified_diff(
                before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{path}", f"b/{path}"
            )
            parts += lines
    return "".join(parts)
