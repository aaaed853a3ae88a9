"""The suites ``swebench_lite`` and ``swebench_verified``: real issues of real repositories, natively or in containers."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from apex_framework.errors import ApexError, MissingExtraError, SuiteError, UsageError
from apex_framework.interfaces import Comparison, Diffs, Task, TaskCheck, Verdict, Workspace, WorkspaceProvider

from . import containers, official, repositories
from .checks import Checks, Record, key_of
from .containers import Container, Containers, check_engine
from .downloads import fetch_data, fetch_repositories
from .environments import Environment, Table
from .folders import read_folder
from .grading import Grade, Grader, some, test_files
from .leniently import NO_PATCH, gnu_patch
from .rows import SPLITS, Instance, read_instances
from .second_opinion import Logs, compared, damaged, opinion

HUB: Final = {"swebench_lite": "SWE-bench/SWE-bench_Lite", "swebench_verified": "SWE-bench/SWE-bench_Verified"}
EVALUATOR: Final = "swebench/native"
EXECUTIONS: Final = ("native", "containers")


class SweBenchSuite:
    """``data`` is a file in the SWE-bench format, ``repos`` a folder of clones, ``environments`` a TOML file of more entries.

    ``execution`` is ``native``, or ``containers``: tests run in the images that the data name, and the official package judges.
    ``limit`` takes the first tasks of a split only. ``tasks`` are those that were checked and behave; ``candidates`` are all.
    """

    def __init__(
        self,
        *,
        name: str = "swebench_lite",
        workspaces: Callable[..., WorkspaceProvider] | None = None,
        limit: int | None = None,
        data: str | Path | None = None,
        repos: str | Path | None = None,
        environments: str | Path | None = None,
        execution: str = "native",
        cache_dir: str | Path | None = None,
    ) -> None:
        if limit is not None and limit < 1:
            raise UsageError(f"a limit of {limit} tasks", "ask for at least one")
        self._name, self._workspaces, self._limit = name, workspaces, limit
        self._data, self._repos = data and Path(data), repos and Path(repos)
        if execution not in EXECUTIONS:
            raise UsageError(f"unknown execution {execution!r}", f"known: {', '.join(EXECUTIONS)}")
        self._contained = execution == "containers"
        self._table: Containers | Table = (
            Containers() if self._contained else Table(Path(environments) if environments else None)
        )
        self._more = f" --environments {environments}" if environments else ""
        self._more += " --option execution=containers" if self._contained else ""
        self._checks = Checks(Path(cache_dir) if cache_dir else None)
        self._grader = Grader(self.workspaces)
        self._told = False

    @property
    def name(self) -> str:
        return self._name

    @property
    def caveats(self) -> tuple[str, ...]:
        """Of tasks from public repositories that are checked on the spot."""
        known = "The fixes of these issues are public: a language model may know them by heart."
        if self._contained:
            return (
                "Only tasks that behave in their containers here are here.",
                "Patches were judged in the official containers, which have a network and more rights than a sandbox leaves.",
                known,
            )
        return (
            "Only tasks that behave on this machine are here: which ones those are depends on its Pythons and packages.",
            known,
        )

    @property
    def digest(self) -> str:
        """Of every row and its environment, the evaluator, and, for the tasks in use, what their checks left out."""
        parts: list[Any] = [self._name]
        for instance in self.instances:
            environment = self._table.find(instance)
            parts.append([instance.to_row(), environment.digest_parts if environment else ""])
        for split in SPLITS:
            parts += [[task.id, task.meta["left_out"]] for task in self._usable(split)]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @cached_property
    def instances(self) -> tuple[Instance, ...]:
        """Every row of the data. Raises UsageError."""
        if not self._data:
            raise UsageError(f"{self._name} reads its tasks from a file of yours", f"--data FILE; {self.sources()[0]}")
        return read_folder(self._data) if self._data.is_dir() else read_instances(self._data)

    def tasks(self, split: str) -> Sequence[Task]:
        """Those that were checked and behave. Raises UsageError, SuiteError when there is none."""
        every, usable = self._of(split), self._usable(split)
        if usable:
            self._need_repos()
        if not usable:
            raise SuiteError(
                f"none of the {len(every)} tasks of {self._name}/{split} was checked and behaves here",
                self._command(split),
            )
        return usable

    def notes(self, split: str) -> tuple[str, ...]:
        """How many tasks are left out, and the command that checks them."""
        every, usable = self._of(split), self._usable(split, None)
        if len(usable) == len(every):
            return ()
        left = f"{len(every) - len(usable)} of {len(every)} tasks are left out, unchecked or not behaving here"
        return (f"{self._name}/{split}: {left}: {self._command(split)}",)

    def candidates(self, split: str) -> Sequence[Task]:
        """All tasks of a split, checked or not."""
        return tuple(self._task(instance, None) for instance in self._of(split)[: self._limit])

    def workspaces(self) -> WorkspaceProvider:
        """The provider ``uv``, in containers ``swebench``, or what the user asked for instead."""
        if self._workspaces is None:
            raise SuiteError(f"{self._name} was made without a workspace provider", "pass workspaces=...")
        return self._workspaces("swebench" if self._contained else "uv")

    def grade(self, task: Task, workspace: Workspace) -> Verdict:
        """Judge what was changed in a workspace, as a patch against the base."""
        if not isinstance(workspace, Diffs):
            return Verdict(False, EVALUATOR, infrastructure_error="the workspace cannot say what was changed")
        return self.grade_patch(task, workspace.diff())

    def gold(self, task: Task) -> str:
        """The patch of those who solved it."""
        return self._instance(task).patch

    def grade_patch(self, task: Task, patch: str) -> Verdict:
        """Success when all of FAIL_TO_PASS pass and all of PASS_TO_PASS that hold on gold here.

        A task that was not checked yet is checked first. ``visible_passed`` is PASS_TO_PASS.
        """
        instance = self._instance(task)
        self._need_repos()
        environment = self._table.find(instance)
        evaluator = environment.evaluator if environment else EVALUATOR
        checked = self.check(task)
        if not checked.behaves:
            why = checked.infrastructure_error or f"the task does not behave here: {checked.why}"
            return Verdict(False, evaluator, infrastructure_error=why)
        try:
            grade = self._grade(instance, patch)
        except MissingExtraError:
            raise
        except (ApexError, OSError) as error:
            return Verdict(False, evaluator, infrastructure_error=f"{type(error).__name__}: {error}")
        return _verdict(instance, evaluator, grade, frozenset(checked.left_out))

    def check(self, task: Task, *, anew: bool = False) -> TaskCheck:
        """Whether the gold patch passes and the empty one fails here; from the cache unless ``anew``."""
        instance = self._instance(task)
        environment = self._table.find(instance)
        if environment is None:
            why = f"no environment for {instance.repo} {instance.version}"
            return TaskCheck(
                task.id, False, infrastructure_error=why, remedy="--environments FILE.toml with an entry for it"
            )
        key = key_of(instance, environment)
        if not anew and (known := self._checks.find(key)) is not None:
            return TaskCheck(task.id, known.behaves, known.why, known.left_out, seconds=known.seconds, cached=True)
        self._need_repos()
        if self._contained:
            check_engine()
        elif not gnu_patch() and not self._told:
            self._told = True
            print(f"{self._name}: {NO_PATCH}: patches that it alone takes count as not applied", file=sys.stderr)
        started = time.perf_counter()
        try:
            record = self._checked(instance, started, lambda patch: self._grade(instance, patch))
        except MissingExtraError:
            raise
        except (ApexError, OSError) as error:
            code, remedy = (error.code, error.remedy) if isinstance(error, ApexError) else ("", "")
            seconds = time.perf_counter() - started
            return TaskCheck(task.id, False, infrastructure_error=str(error), seconds=seconds, code=code, remedy=remedy)
        self._keep(key, task, record)
        return TaskCheck(task.id, record.behaves, record.why, record.left_out, seconds=record.seconds)

    def compare(self, task: Task, folder: Path) -> Iterator[Comparison]:
        """The gold patch, the empty one and a damaged one: our verdict on each, and the official harness's on the same log.

        Logs are kept below ``folder``; what is there is not run again. Raises MissingExtraError, UsageError.
        """
        instance = self._instance(task)
        environment = self._table.find(instance)
        if isinstance(environment, Container):
            raise UsageError("in containers the official harness judges alone", "leave --official or execution out")
        if environment is None:
            yield Comparison(task.id, infrastructure_error=f"no environment for {instance.repo} {instance.version}")
            return
        official.require("the official grader")
        self._need_repos()
        key, logs = key_of(instance, environment), Logs(folder, instance)
        patches = {"gold": instance.patch, "empty": "", "damaged": damaged(instance.patch)}
        started, grades, left_out = time.perf_counter(), dict[str, Grade](), frozenset[str]()
        for name, patch in patches.items():
            before = time.perf_counter()
            try:
                run = logs.find(key, name, patch)
                if run is None:
                    run = self._grader.run(instance, environment, self._clone(instance), patch)
                    logs.keep(key, name, patch, run)
                grade = grades[patch] = self._grader.judge(instance, environment, run)
                if name == "gold":
                    left_out = _left_out(instance, grade)
                theirs = opinion(instance, patch, run, left_out)
            except MissingExtraError:
                raise
            except (ApexError, OSError) as error:
                yield Comparison(task.id, name, infrastructure_error=str(error))
                return
            ours = _verdict(instance, environment.evaluator, grade, left_out)
            yield compared(task.id, name, ours, grade, theirs, time.perf_counter() - before)
        if self._checks.find(key) is None:
            self._keep(key, task, self._checked(instance, started, grades.__getitem__))

    def swebench_row(self, task: Task) -> Mapping[str, Any]:
        """The row that it came from."""
        instance = self._instance(task)
        return {**instance.to_row(), **instance.container}

    def sources(self) -> Sequence[str]:
        """What to download, and where to: one line each."""
        lines = [
            f"the files of its splits, as parquet or JSON lines: https://huggingface.co/datasets/{HUB[self._name]}"
        ]
        wanted = sorted({instance.repo for instance in self.instances}) if self._data and self._data.exists() else []
        missing = [repo for repo in wanted if not self._repos or repositories.find(self._repos, repo) is None]
        folder = self._repos or "DIR"
        lines += [
            f"git clone --bare https://github.com/{repo} {folder}/{repositories.names(repo)[0]}" for repo in missing
        ]
        return (
            lines
            if wanted
            else [*lines, "its repositories: git clone --bare https://github.com/OWNER/NAME DIR/OWNER+NAME"]
        )

    def fetch(self, say: Callable[[str], None]) -> Sequence[str]:
        """Download the data, and clones of the repositories that they name where a folder for them was named."""
        if not self._data:
            raise UsageError("a folder to download into is needed", "--data DIR, and --repos DIR for repositories")
        found = fetch_data(HUB[self._name], self._data, say)
        if not self._repos:
            say("its repositories are not downloaded without --repos DIR")
        else:
            found += fetch_repositories(sorted({one.repo for one in self.instances}), self._repos, say)
        return [str(path) for path in found]

    def close(self) -> None:
        """Remove the workspaces that patches were judged in; idempotent."""
        self._grader.close()

    def _command(self, split: str) -> str:
        """The command that checks a split."""
        clones = "" if self._contained else f" --repos {self._repos or 'DIR'}"
        return f"apex suite check {self._name}/{split} --data {self._data}{clones}{self._more}"

    def _of(self, split: str) -> tuple[Instance, ...]:
        if split not in SPLITS:
            raise UsageError(f"{self._name} has no split {split!r}", f"known: {', '.join(SPLITS)}")
        found = tuple(instance for instance in self.instances if instance.split == split)
        have = sorted({instance.split for instance in self.instances})
        if not found:
            raise UsageError(f"{self._data}: no task of the split {split!r}", f"its splits: {', '.join(have)}")
        return found

    def _usable(self, split: str, limit: int | None = -1) -> tuple[Task, ...]:
        limit = self._limit if limit == -1 else limit
        found: list[Task] = []
        for instance in self.instances:
            environment = self._table.find(instance)
            if instance.split != split or environment is None:
                continue
            record = self._checks.find(key_of(instance, environment))
            if record is not None and record.behaves:
                found.append(self._task(instance, record))
        return tuple(found[:limit])

    def _instance(self, task: Task) -> Instance:
        if task.suite != self._name:
            raise UsageError(f"task {task.id} belongs to {task.suite}", "grade it with its own suite")
        if task.id not in self._by_id:
            raise UsageError(f"{self._data} has no task {task.id!r}", "is it of another file?")
        return self._by_id[task.id]

    @cached_property
    def _by_id(self) -> dict[str, Instance]:
        return {instance.instance_id: instance for instance in self.instances}

    def _task(self, instance: Instance, record: Record | None) -> Task:
        environment = self._table.find(instance) or Environment(instance.repo)
        return Task(
            id=instance.instance_id,
            suite=self._name,
            split=instance.split,
            issue=instance.problem_statement,
            cluster=instance.repo,
            family=instance.version,
            repo=self._repository(instance),
            base_commit="" if self._contained else instance.base_commit,
            run=environment.run_of(instance.version, test_files(instance, at_base=True), deciding=False),
            meta={"version": instance.version, "left_out": list(record.left_out) if record else []},
        )

    def _repository(self, instance: Instance) -> str:
        """Its clone; nothing in containers, where the image has all of it."""
        if self._contained or not self._repos:
            return ""
        return str(repositories.find(self._repos, instance.repo) or "")

    def _grade(self, instance: Instance, patch: str) -> Grade:
        environment = self._table.find(instance)
        assert environment is not None  # its check said so
        if isinstance(environment, Container):
            return containers.grade(instance, patch)
        return self._grader.grade(instance, environment, self._clone(instance), patch)

    def _clone(self, instance: Instance) -> Path:
        where = repositories.find(self._repos, instance.repo) if self._repos else None
        if where is None:
            name = repositories.names(instance.repo)[0]
            raise SuiteError(
                f"no clone of {instance.repo} in {self._repos}",
                f"git clone --bare https://github.com/{instance.repo} {self._repos}/{name}",
            )
        return where

    def _need_repos(self) -> None:
        """Raises UsageError where no folder of clones was named, or it is not there."""
        if not self._contained and not (self._repos and self._repos.is_dir()):
            where = f"there is no folder {self._repos}" if self._repos else "their folder was not named"
            raise UsageError(
                f"{self._name} needs clones of its repositories, and {where}", f"--repos DIR; {self.sources()[-1]}"
            )

    def _checked(self, instance: Instance, started: float, grade: Callable[[str], Grade]) -> Record:
        gold = grade(instance.patch)
        why = ""
        failed = gold.failed + (gold.broken if self._contained else ())
        if failed or (disputed := [n for n in gold.disputed if n in instance.FAIL_TO_PASS]):
            why = f"with the gold patch these do not pass: {some(failed or tuple(disputed))}"
            why += f" ({gold.detail})" if gold.detail else ""
        elif not grade("").failed:
            why = "all of FAIL_TO_PASS pass without a patch"
        unfit = frozenset[str]() if self._contained else _left_out(instance, gold)
        left_out = tuple(name for name in instance.PASS_TO_PASS if name in unfit)
        return Record(not why, why, left_out, round(time.perf_counter() - started, 2))

    def _keep(self, key: str, task: Task, record: Record) -> None:
        try:
            self._checks.keep(key, record)
        except OSError as error:
            print(f"{self._name}: the check of {task.id} is not kept: {error}", file=sys.stderr)


def _left_out(instance: Instance, gold: Grade) -> frozenset[str]:
    """Tests that must stay green, and are not even with the gold patch, or not for both judges."""
    return frozenset(instance.PASS_TO_PASS) & {*gold.broken, *gold.disputed}


def _verdict(instance: Instance, evaluator: str, grade: Grade, left_out: frozenset[str]) -> Verdict:
    broken = [name for name in grade.broken if name not in left_out]
    counted = sum(name not in left_out for name in instance.PASS_TO_PASS)
    detail = (
        f"FAIL_TO_PASS {len(instance.FAIL_TO_PASS) - len(grade.failed)}/{len(instance.FAIL_TO_PASS)}, "
        f"PASS_TO_PASS {counted - len(broken)}/{counted}"
    )
    detail += f" ({len(left_out)} left out)" if left_out else ""
    detail += f"; {grade.detail}" if grade.detail else ""
    wrong = {*grade.failed, *broken}
    disputed = [name for name in grade.disputed if name not in left_out]
    # Where both judges find something wrong, the verdict is beyond dispute.
    if bool(wrong) != bool(wrong.symmetric_difference(disputed)):
        return Verdict(False, evaluator, False, detail, f"log and channel disagree on {some(disputed)}")
    return Verdict(not wrong, evaluator, not broken, detail)
