"""The run folder: what a run leaves on disk, durable episode by episode."""

from __future__ import annotations

import contextlib
import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import Any

from ..errors import ArtifactError, PluginError, RunFolderError
from ..interfaces import EpisodeResult
from ..ports import Files, SystemFiles
from .layout import EPISODES, OWN_FILES, SIDE_FILES, episode_folder
from .lines import cut_torn_tail, iterate_rows, key_of, misfit, to_line
from .lock import FolderLock, claim
from .manifest import DONE, STORE, forget_manifest, verify_lines, verify_manifest, write_manifest
from .plan import Key, Plan
from .shortfall import shortfalls
from .toml import to_toml

FORMAT = 1
"""Version of the folder's layout, in run.json."""
INFRASTRUCTURE = "infrastructure"
"""Status of an episode that could not be run."""
CUT = "cut.jsonl"
"""Lines of episodes that a shared budget cut short: no results, but they cost tokens."""
RAISED = "raised"
"""Key in run.json of ceilings that were raised after the plan was made."""


class RunFolder:
    """An open run folder, locked for this process. A context manager; ``add`` makes one episode durable."""

    def __init__(self, path: Path, plan: Plan, lock: FolderLock, *, files: Files) -> None:
        self.path = path
        self.plan = plan
        self._lock = lock
        self._files = files
        self.records: dict[Key, bool] = {}
        """Finished episodes, and whether each could be run; their lines are on disk, and only there: see ``lines``."""
        self.lost: dict[Key, str] = {}
        """Episodes that had been finished and are to be run again, for lines of theirs are gone; and which."""
        self.new = False
        """Whether this process began the run."""
        self._made = False

    @classmethod
    def create(
        cls,
        path: Path,
        plan: Plan,
        *,
        command: str = "",
        config: Mapping[str, Any] | None = None,
        models: Mapping[str, Any] | None = None,
        sandbox: Mapping[str, Any] | None = None,
        code: Mapping[str, str] | None = None,
        said: Mapping[str, Any] | None = None,
        files: Files | None = None,
    ) -> RunFolder:
        """Make a new run folder and write the plan. Raises RunFolderError; then nothing is left behind.

        ``config`` are the settings that the plan was made from, in the form of a configuration file; ``models`` says
        what answers, as ``identify`` has it; ``sandbox`` what confines the code of tasks, and what it lacks here;
        ``code`` what makes the episodes, as ``code_digests`` has it; ``said`` are further facts, kept where there are any:
        ``again``, a command that needs no file or variable, and ``settings``, those that differ from the defaults.
        """
        if (path / DONE).exists():
            raise RunFolderError(f"{path} is finished", f"apex report {path}, or choose another --out")
        if (path / "run.json").exists():
            raise RunFolderError(f"{path} holds a run already", f"apex resume {path}, or choose another --out")
        lock, made = claim(path)
        folder = cls(path, plan, lock, files=files or SystemFiles())
        folder.new, folder._made = True, made
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        run = {"format": FORMAT, "run_id": plan.run_id, "digest": plan.digest, "created": now, "command": command}
        if plan.caveats:
            run["caveats"] = list(plan.caveats)
        if models:
            run["models"] = dict(models)
        if sandbox:
            run["sandbox"] = dict(sandbox)
        if code:
            run["code"] = dict(code)
        run |= {name: value for name, value in (said or {}).items() if value}
        try:
            folder._files.replace(path / "config.toml", to_toml(config or {}).encode())
            folder._files.replace(
                path / "run.json", json.dumps({**run, "plan": plan.to_json()}, indent=1).encode() + b"\n"
            )
        except OSError as error:
            folder.discard()
            raise RunFolderError(f"cannot write to {path}: {error.strerror}", "choose another --out") from error
        return folder

    @classmethod
    def reopen(cls, path: Path, *, files: Files | None = None, retry_failed: bool = False) -> RunFolder:
        """Open an unfinished run: cut torn lines, drop side rows of unfinished episodes.

        Episodes whose side rows or own files are not all there any more, by what their line counts, are unfinished: ``lost``.
        With ``retry_failed`` also a finished one, when episodes failed for infrastructure: they, with all their rows,
        are unfinished then, and so is the run. Raises RunFolderError, ArtifactError.
        """
        plan = read_plan(path)
        if (path / DONE).exists() and not retry_failed:
            raise RunFolderError(f"{path} is finished", f"apex report {path}, or choose another --out")
        folder = cls(path, plan, FolderLock(path), files=files or SystemFiles())
        try:
            with folder._writing():
                folder._recover(retry_failed)
        except BaseException:
            folder._lock.release()
            raise
        return folder

    def _recover(self, retry_failed: bool) -> None:
        finished = (self.path / DONE).exists()
        if finished:
            verify_manifest(self.path)  # a new manifest must not vouch for what was changed under the old one
        else:
            self._cut_torn_tails()
            verify_lines(self.path, EPISODES)
        planned = set(self.plan.keys())
        for _, row in iterate_rows(self.path / EPISODES):
            key = key_of(row)
            if key not in planned or key in self.records:
                raise ArtifactError(f"{self.path / EPISODES}: {key} is not planned or there twice", "start a new run")
            self.records[key] = row.get("status") != INFRASTRUCTURE
        if not finished:
            self.lost = shortfalls(self.path)
            self.records = {key: ran for key, ran in self.records.items() if key not in self.lost}
        if retry_failed:
            kept = dict.fromkeys((key for key, ran in self.records.items() if ran), True)
            if finished and len(kept) == len(self.records):
                raise RunFolderError(f"{self.path} is finished and no episode of it failed", f"apex report {self.path}")
            self.records = kept
        forget_manifest(self.path)
        self._put_in_order()

    def add(self, result: EpisodeResult) -> None:
        """Write one finished episode; when this returns, the end of the process takes nothing of it away.

        Raises RunFolderError, and PluginError for a result that files cannot hold: then nothing of it is written.
        """
        key = key_of(result.record)
        home = self.episode_path(key)
        own, sides, line = _encoded(result, key)
        with self._writing():
            home.mkdir(parents=True, exist_ok=True)
            for name, data in zip(OWN_FILES, own, strict=True):
                (home / name).write_bytes(data)
            for name, data in zip(SIDE_FILES, sides, strict=True):
                if data:
                    (self.path / name).parent.mkdir(exist_ok=True)
                    self._files.append(self.path / name, data, sync=False)
            self._files.append(self.path / EPISODES, line, sync=True)
        self.records[key] = result.record.get("status") != INFRASTRUCTURE

    def lines(self) -> Iterator[dict[str, Any]]:
        """Lines of finished episodes as they are on disk. Raises ArtifactError."""
        for _, row in iterate_rows(self.path / EPISODES):
            if key_of(row) in self.records:
                yield row

    def set_aside(self, record: Mapping[str, Any]) -> None:
        """Keep the line of an episode that is no result and will be run again. Raises RunFolderError, PluginError."""
        line = _lines("record", [record])
        with self._writing():
            self._files.append(self.path / CUT, line, sync=True)

    def note_raised(self, **tokens: int) -> None:
        """Write into run.json that ceilings were raised. Raises RunFolderError, ArtifactError."""
        self.note(RAISED, **tokens)

    def note(self, key: str, **values: Any) -> None:
        """Add a dated line to a list of run.json, beside the plan. Raises RunFolderError, ArtifactError."""
        run = read_run(self.path)
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        run[key] = [*run.get(key, ()), {"when": now, **values}]
        with self._writing():
            self._files.replace(self.path / "run.json", json.dumps(run, indent=1).encode() + b"\n")

    def episode_path(self, key: Key) -> Path:
        """Where one episode's own files are."""
        return episode_folder(self.path, key)

    def close(self) -> None:
        """Cut what an interrupted ``add`` left, put all lines into plan order, give the folder free; idempotent.

        Raises RunFolderError when the disk fails; then reopening does the rest.
        """
        try:
            with self._writing():
                self._cut_torn_tails()
                self._put_in_order()
        finally:
            self._lock.release()

    def discard(self) -> None:
        """Remove what this run wrote and give the folder free; the folder goes only if it was made for the run."""
        for name in (EPISODES, *SIDE_FILES, CUT, STORE, f"{STORE}-wal", f"{STORE}-shm", "config.toml", "run.json"):
            (self.path / name).unlink(missing_ok=True)
        for key in list(self.plan.keys()):
            home = self.episode_path(key)
            for name in OWN_FILES:
                (home / name).unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # what is not empty, or not there, needs no removal
                for folder in (home, *list(home.parents)[:3]):
                    folder.rmdir()
        with contextlib.suppress(OSError):
            (self.path / "metrics").rmdir()
        self._lock.remove()
        if self._made:
            with contextlib.suppress(OSError):  # somebody else put something into it
                self.path.rmdir()

    def finish(self) -> None:
        """All episodes are there: write predictions, metrics and the manifest. Raises RunFolderError."""
        from .measured import write_measured
        from .summary import write_metrics, write_predictions

        with self._writing():
            self._put_in_order()
            write_predictions(self)
            write_metrics(self)
            write_measured(self)
            write_manifest(self.path, self._files)

    def replace(self, name: str, data: bytes) -> None:
        """Write one file of the folder whole."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self._files.replace(path, data)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """A disk that is full or fails is one line, not a bug."""
        try:
            yield
        except OSError as error:
            raise RunFolderError(
                f"cannot write to {self.path}: {error.strerror}", "free space, then: apex resume"
            ) from error

    def _cut_torn_tails(self) -> None:
        for name in (EPISODES, *SIDE_FILES, CUT):
            cut_torn_tail(self.path / name)

    def _put_in_order(self) -> None:
        """Results arrive in any order; the files are in the plan's, so that equal seeds give equal files."""
        place = {key: index for index, key in enumerate(self.plan.keys())}
        for name in (EPISODES, *SIDE_FILES):
            path = self.path / name
            last, in_order = -1, True
            for _, row in iterate_rows(path):
                now = place[key] if (key := key_of(row)) in self.records else -1
                in_order, last = in_order and now >= max(0, last), now
            if not in_order:
                kept = [(place[key], line) for line, row in iterate_rows(path) if (key := key_of(row)) in self.records]
                self._files.replace(path, b"".join(line for _, line in sorted(kept, key=itemgetter(0))))

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._lock.release()  # order is restored when the run is resumed


def _encoded(result: EpisodeResult, key: Key) -> tuple[list[bytes], list[bytes], bytes]:
    """What goes into an episode's own files, into side files, and its line. Raises PluginError."""
    try:
        patch = result.patch.encode("utf-8", "surrogateescape")
    except (AttributeError, UnicodeEncodeError) as error:
        raise PluginError(f"the episode's patch cannot be written: {error}") from error
    owner = dict(zip(("arm", "task_id", "seed"), key, strict=True))
    own = [_lines("trace", result.trace), patch, _lines("metrics", result.metrics)]
    names = ("decisions", "switches", "calls", "events", "latency", "ops")
    sides = [_lines(name, getattr(result, name), owner) for name in names]
    return own, sides, _lines("record", [result.record])


def _lines(name: str, rows: Sequence[Mapping[str, Any]], owner: Mapping[str, Any] | None = None) -> bytes:
    """Lines of these rows. Raises PluginError, with the place of the value that is no JSON."""
    try:
        return b"".join(to_line({**(owner or {}), **row}) for row in rows)
    except (TypeError, ValueError, RecursionError) as error:
        place = misfit(list(rows), name) if isinstance(error, TypeError) else ""
        raise PluginError(f"the episode's {place or name} is no JSON: {error}") from error


def read_run(path: Path) -> dict[str, Any]:
    """run.json. Raises ArtifactError."""
    try:
        data = json.loads((path / "run.json").read_bytes())
    except OSError as error:
        if (path / EPISODES).exists():
            raise ArtifactError(
                f"{path} has no readable run.json, and so no plan", "restore run.json, or start a new run"
            ) from error
        raise ArtifactError(
            f"{path} is no run folder: no readable run.json", "name a folder that apex run made"
        ) from error
    except ValueError as error:
        raise ArtifactError(f"{path / 'run.json'} is damaged: {error}", "start a new run") from error
    if not isinstance(data, Mapping) or data.get("format") != FORMAT:
        raise ArtifactError(f"{path / 'run.json'} is of another version", "use the apex that made it")
    return dict(data)


def read_plan(path: Path) -> Plan:
    """The plan that a run folder was made for. Raises ArtifactError, also when plan and digest disagree."""
    data = read_run(path)
    plan = Plan.from_json(data.get("plan", {}))
    if plan.digest != data.get("digest"):
        raise ArtifactError(f"{path / 'run.json'} was edited: plan and digest disagree", "start a new run")
    return plan
