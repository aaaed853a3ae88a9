"""A run: the plan's episodes through an executor into the run folder."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..errors import ApexError, ArtifactError, BudgetTooSmallError, ExecutorError, PluginError
from ..events import EpisodeFinished, EpisodeStarted, Event, RunFinished
from ..interfaces import EpisodeJob, EpisodeResult, Executor, infrastructure_failure
from ..telemetry.meters import event_of
from .allowance import Allowance, Spent
from .artifacts import RunFolder
from .interruption import Interruption
from .lines import key_of
from .plan import Key

_PROBE = 3
"""Episodes of an arm after which a budget that paid for nothing is called too small."""

Work = Callable[[EpisodeJob], EpisodeResult]


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended."""

    finished: int
    planned: int
    infrastructure: int
    """Finished episodes that could not be run."""
    signal: int = 0
    """The signal that interrupted it, 0 if none did."""
    spent: Spent | None = None
    """The shared budget that stopped it, None if none did."""
    cut: int = 0
    """Episodes that it cut short; they will be run again."""

    @property
    def complete(self) -> bool:
        """Whether every planned episode is there."""
        return self.finished == self.planned

    @property
    def exit_status(self) -> int:
        """0, 4 (infrastructure), 6 (the global budget is spent) or 128 + signal."""
        if not self.complete:
            if self.spent is not None and not self.signal:
                return 6
            return 128 + (self.signal or 2)
        return 4 if self.infrastructure else 0


class Runner:
    """Feeds unfinished episodes to an executor and makes each result durable as it arrives."""

    def __init__(
        self,
        folder: RunFolder,
        executor: Executor,
        work: Work,
        *,
        workers: int = 1,
        notify: Callable[[Event], None] = lambda event: None,
        on_interrupt: Callable[[], None] = lambda: None,
        on_result: Callable[[EpisodeResult], None] = lambda result: None,
        allowance: Allowance | None = None,
        owner: str = "",
    ) -> None:
        """``allowance`` is asked before every episode; when it is spent, what is in flight ends and the run stops.

        ``notify`` gets events in this process: starts, ends, and what the workers recorded of each episode.

        ``on_result`` gets each result once it is durable. ``owner`` is the plugin that brings the executor.
        """
        self._folder = folder
        self._tasks = {task.id: task for task in folder.plan.tasks}
        self._executor = executor
        self._work = work
        self._workers = workers
        self._notify = notify
        self._on_interrupt = on_interrupt
        self._on_result = on_result
        self._allowance = allowance
        self._owner = f" of plugin {owner}" if owner else ""
        self._stop: Spent | ApexError | None = None
        self._cut: list[Mapping[str, str]] = []
        self._refused = {arm.name: (0, 0) for arm in folder.plan.arms}
        """Arm -> finished episodes, and those of them that were refused every call."""
        self._given: dict[Key, EpisodeJob] = {}
        """Jobs that were handed out and have not come back."""
        for record in folder.lines() if folder.records else ():
            done, refused = self._refused[str(record["arm"])]
            self._refused[str(record["arm"])] = done + 1, refused + _was_refused(record)

    def run(self) -> RunOutcome:
        """Run what is not finished yet, then close the folder's books if all is there.

        Raises BudgetTooSmallError when an arm's budget pays for no call at all, RunFolderError when the disk fails,
        BudgetStoreError when a shared ceiling cannot be reached; then what is in flight is finished first. ExecutorError
        when the executor fails, or answers a job twice, one that it was not given, or not all of them.
        """
        plan = self._folder.plan
        with Interruption(self._on_interrupt) as interruption:
            results = self._results(interruption)
            try:
                for result in results:
                    self._take(result)
            except KeyboardInterrupt:
                if not interruption.signal:
                    raise
            finally:
                results.close()  # generators stop their workers
        if isinstance(self._stop, ApexError):
            raise self._stop
        records = self._folder.records
        outcome = RunOutcome(
            finished=len(records),
            planned=plan.size,
            infrastructure=sum(not ran for ran in records.values()),
            signal=interruption.signal,
            spent=self._stop,
            cut=len(self._cut),
        )
        if not (outcome.complete or outcome.signal or outcome.spent or outcome.cut):
            raise self._broken(
                f"ended with {outcome.finished} of {outcome.planned} episodes done, and nobody stopped it"
            )
        if outcome.complete:
            self._folder.finish()
            self._notify(RunFinished(plan.run_id, str(self._folder.path), outcome.finished))
        return outcome

    def _results(self, interruption: Interruption) -> Generator[EpisodeResult, None, None]:
        """What the executor gives; closing it closes that. Raises ExecutorError for what the executor raises."""
        try:
            yield from self._executor.run(self._jobs(interruption), self._work, workers=self._workers)
        except ApexError:
            raise
        except Exception as error:  # the edge to a plugin's code: its failure is named as its own
            raise self._broken(f"fails: {type(error).__name__}: {error}") from error

    def _jobs(self, interruption: Interruption) -> Iterator[EpisodeJob]:
        """Jobs of unfinished episodes, for as long as nobody interrupts."""
        for job in self._folder.plan.jobs():
            arm = str(job.arm["name"])
            if (arm, job.task_id, job.seed) in self._folder.records:
                continue
            if interruption.signal or self._stopped():
                return
            self._notify(
                EpisodeStarted(_episode_id(job.arm["name"], job.task_id, job.seed), arm, job.task_id, job.seed)
            )
            self._given[arm, job.task_id, job.seed] = job
            yield job if self._allowance is None else self._allowance.equip(job)

    def _stopped(self) -> bool:
        """Whether a shared ceiling pays for nothing more, has just cut an episode short, or cannot be reached."""
        if self._stop is None and self._allowance is not None:
            try:
                self._stop = self._allowance.spent() or (self._allowance.cut(self._cut[-1]) if self._cut else None)
            except ApexError as error:
                self._stop = error
        return self._stop is not None

    def _answered(self, result: EpisodeResult) -> EpisodeJob:
        """The job that came back. Raises ExecutorError for a result that nobody waits for."""
        try:
            key = key_of(result.record)
        except (ArtifactError, AttributeError) as error:
            raise self._broken(f"gave something that is no result: {error}") from error
        if (job := self._given.pop(key, None)) is None:
            again = "a second time" if key in self._folder.records else "that it was not asked for"
            raise self._broken(f"gave the result of {_episode_id(*key)} {again}")
        return job

    def _broken(self, how: str) -> ExecutorError:
        return ExecutorError(
            f"executor {self._executor.name!r}{self._owner} {how}",
            "go on with --executor local, and tell the executor's author",
        )

    def _take(self, result: EpisodeResult) -> None:
        job = self._answered(result)
        try:
            result = self._kept(result)
        except PluginError as error:  # some plugin put into it what no file can hold
            result = self._kept(infrastructure_failure(job, error.cause))
        if denied_by := result.record.get("denied_by"):
            self._cut.append(denied_by)
            self._stopped()
            return
        episode = _episode_id(*key_of(result.record))
        for event in _events(result, episode):
            self._notify(event)
        self._notify(EpisodeFinished(episode, result.record))
        self._on_result(result)
        self._require_calls(result.record)

    def _kept(self, result: EpisodeResult) -> EpisodeResult:
        """Write it, and return it as it was written. Raises PluginError for one that cannot be, RunFolderError."""
        task = self._tasks.get(str(result.record["task_id"]))
        if task is not None and not result.record.get("cluster"):  # a failed worker knows no more than its job
            result = replace(result, record={**result.record, "cluster": task.cluster, "family": task.family})
        if result.record.get("denied_by"):
            self._folder.set_aside(result.record)
        else:
            self._folder.add(result)
        return result

    def _require_calls(self, record: Mapping[str, Any]) -> None:
        """Raises BudgetTooSmallError when the first episodes of an arm were refused every call."""
        plan, arm = self._folder.plan, str(record["arm"])
        done, refused = self._refused[arm]
        self._refused[arm] = done, refused = done + 1, refused + _was_refused(record)
        enough = min(_PROBE, len(plan.tasks) * len(plan.seeds))
        if done == refused == enough:
            raise BudgetTooSmallError(
                f"the budget of arm {arm!r} pays for no call: {enough} episodes were refused every one",
                "give a larger --budget",
            )


def _was_refused(record: Mapping[str, Any]) -> bool:
    return bool(record.get("denied", 0)) and not record.get("calls", 0)


def _episode_id(arm: str, task_id: str, seed: int) -> str:
    return f"{arm}/{task_id}/{seed}"


def _events(result: EpisodeResult, episode: str) -> Iterator[Event]:
    """What a worker recorded, as the events that it was; rows of another shape are no events."""
    denied = [row for row in result.calls if row.get("status") == "denied"]
    settled = [row for row in result.calls if row.get("status") != "denied"]
    told = (
        ("DecisionTaken", result.decisions),
        ("SwitchFinished", result.switches),
        ("CallSettled", settled),
        ("CallDenied", denied),
        ("", result.events),
    )
    for kind, rows in told:
        for row in rows:
            event = event_of({**row, "event": kind} if kind else row, episode)
            if event is not None:
                yield event
