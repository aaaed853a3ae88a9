"""The journal on a real file system, and its group commit under virtual time."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from apex_framework.errors import JournalError, PayloadError, PayloadTooLargeError
from apex_framework.ports import LocalFileSystem, SystemFiles, VirtualEffects
from apex_framework.runtime.journal import Journal, Record
from apex_framework.runtime.recovery import MAX_RECORD_BYTES
from apex_framework.testing.disk import Crash, SimulatedDisk
from apex_framework.timeloop import run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def virtual(disk: SimulatedDisk) -> Journal:
    return Journal.open(disk.root / "journal", files=disk, effects=VirtualEffects(), sync_cost_s=0.003)


# --- one file, opened again ---------------------------------------------------------------------


def test_records_are_found_again_in_their_order(path: Path) -> None:
    with Journal.open(path) as journal:
        assert (journal.records, journal.cut) == ((), 0)
        assert [journal.append(64, n, {"n": n, "text": "\u00e4\ud800\x00"}) for n in range(3)] == [1, 2, 3]
    with Journal.open(path) as journal:
        assert journal.records == tuple(Record(64, n, n + 1, {"n": n, "text": "\u00e4\ud800\x00"}) for n in range(3))
        assert journal.append(65, 9, {}) == 4
    assert [name.name for name in path.parent.iterdir()] == ["journal"]


def test_a_torn_tail_is_cut_and_counted(path: Path) -> None:
    with Journal.open(path) as journal:
        journal.append(64, 0, {"n": 1})
        journal.append(64, 0, {"n": 2})
    whole = path.read_bytes()
    path.write_bytes(whole[:-3] + bytes(5000))
    with Journal.open(path) as journal:
        assert [r.payload["n"] for r in journal.records] == [1]
        assert journal.cut > 5000
    with Journal.open(path) as journal:
        assert (len(journal.records), journal.cut) == (1, 0)


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        ({"x": object()}, PayloadError),
        ({"x": float("nan")}, PayloadError),
        ({"x": "y" * MAX_RECORD_BYTES}, PayloadTooLargeError),
    ],
)
def test_what_is_no_payload_is_refused_and_the_journal_goes_on(
    path: Path, payload: dict[str, object], error: type[Exception]
) -> None:
    with Journal.open(path) as journal:
        with pytest.raises(error):
            journal.append(64, 0, payload)
        with pytest.raises(ValueError):
            journal.append(0, 0, {})
        with pytest.raises(ValueError):
            journal.append(64, -1, {})
        assert journal.append(64, 0, {}) == 1
    with Journal.open(path) as journal:
        assert len(journal.records) == 1


def test_a_closed_journal_says_so(path: Path) -> None:
    journal = Journal.open(path)
    journal.close()
    journal.close()
    for use in (lambda: journal.append(64, 0, {}), journal.sync):
        with pytest.raises(JournalError, match="is closed"):
            use()


# --- what cannot be opened: one line each ---------------------------------------------------------


def refusal(path: Path) -> str:
    with pytest.raises(JournalError) as caught:
        Journal.open(path)
    assert caught.value.code == "E0307" and caught.value.exit_status == 3
    assert caught.value.remedy and "\n" not in caught.value.cause + caught.value.remedy
    return caught.value.cause


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path / "no" / "journal").endswith("journal as a journal: No such file or directory")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_its_place_is_named(path: Path) -> None:
    path.mkdir()
    assert refusal(path).endswith("Is a directory")


def test_a_device_in_its_place_is_named() -> None:
    assert refusal(Path("/dev/null")).endswith("not a regular file")


def test_an_empty_file_is_named(path: Path) -> None:
    path.touch()
    assert refusal(path) == f"{path} is empty: not a journal"


def test_a_foreign_file_is_named_and_left_alone(path: Path) -> None:
    path.write_text("{}\n")
    assert refusal(path).startswith(f"{path} is not a journal")
    assert path.read_text() == "{}\n"


def test_another_version_is_named(path: Path) -> None:
    import struct
    import zlib

    head = struct.pack(">8sHH16s", b"APEXJRNL", 2, 0, b"x" * 16)
    path.write_bytes(head + struct.pack(">I", zlib.crc32(head)) + bytes(12))
    assert "is a journal of version 2, not 1" in refusal(path)


@pytest.mark.parametrize("error", [errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EMFILE])
def test_f09_f54_what_the_system_refuses_when_it_is_opened_is_one_line(disk: SimulatedDisk, error: int) -> None:
    disk.fail_at(2, error)  # making the file
    with pytest.raises(JournalError, match=f"cannot use /simulated/journal as a journal: {os.strerror(error)}"):
        virtual(disk)
    with virtual(disk):
        pass


def test_a_file_system_without_locks_is_refused(disk: SimulatedDisk) -> None:
    disk.fail_at(3, errno.ENOLCK)
    with pytest.raises(JournalError, match=os.strerror(errno.ENOLCK)) as caught:
        virtual(disk)
    assert caught.value.remedy == "name a file in a local folder that can be written"


def test_f54_without_a_free_descriptor_opening_is_refused_and_works_again_once_there_is_one(path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open("/dev/null", os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        cause = refusal(path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert os.strerror(errno.EMFILE) in cause
    with Journal.open(path) as journal:
        assert journal.append(64, 0, {}) == 1


# --- one process ----------------------------------------------------------------------------------

HOLDER = """
import sys
from pathlib import Path
from apex_framework.runtime.journal import Journal
journal = Journal.open(Path(sys.argv[1]))
journal.append(64, 0, {})
journal.sync()
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "open\n"
        yield process
        process.kill()


def test_f10_a_second_process_is_refused_and_a_dead_one_is_in_nobodys_way(
    path: Path, holder: subprocess.Popen[str]
) -> None:
    assert refusal(path) == f"{path} is in use"
    holder.kill()
    holder.wait()
    with Journal.open(path) as journal:
        assert len(journal.records) == 1


def test_f10_a_second_opener_in_one_process_is_refused(path: Path) -> None:
    with Journal.open(path):
        assert refusal(path) == f"{path} is in use"
    Journal.open(path).close()


def test_f10_of_openers_of_a_new_journal_at_the_same_time_one_gets_it(path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def attempt(n: int) -> Journal | None:
        try:
            return Journal.open(path)
        except JournalError as error:
            assert str(error) == f"{path} is in use"
            return None

    for _ in range(20):
        with ThreadPoolExecutor(8) as pool:
            journals = [journal for journal in pool.map(attempt, range(8)) if journal is not None]
        assert len(journals) == 1
        journals[0].append(64, 0, {})
        journals[0].close()
        assert [name.name for name in path.parent.iterdir()] == ["journal"]
        path.unlink()


# --- group commit ---------------------------------------------------------------------------------


def test_all_who_wait_share_one_sync(disk: SimulatedDisk) -> None:
    async def main() -> float:
        async def one(n: int) -> None:
            await journal.durable(journal.append(64, 0, {"n": n}))

        await asyncio.gather(*(one(n) for n in range(64)))
        return asyncio.get_running_loop().time()

    with virtual(disk) as journal:
        before = disk.trace.count("sync")
        assert run(main()) == pytest.approx(0.003)
        assert disk.trace.count("sync") - before == 1
    with virtual(disk.crash(Crash.LOST)) as journal:
        assert [r.payload["n"] for r in journal.records] == list(range(64))


@pytest.mark.parametrize("seed", range(30))
def test_cancelling_those_who_wait_loses_nothing_for_the_others(disk: SimulatedDisk, seed: int) -> None:
    """Under any interleaving: whoever is told is on disk at that moment."""

    async def main() -> None:
        async def one(n: int) -> None:
            await asyncio.sleep(n % 5 * 0.002)
            seq = journal.append(64, 0, {"n": n})
            await journal.durable(seq)
            with virtual(disk.crash(Crash.LOST)) as found:
                assert any(r.seq == seq and r.payload["n"] == n for r in found.records)
            told.append(n)

        tasks = [asyncio.create_task(one(n)) for n in range(12)]
        for n in (0, 1, 6, 11):
            await asyncio.sleep(0.001 * (seed % 4))
            tasks[n].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert {n for n, task in enumerate(tasks) if not task.cancelled() and task.exception() is None} == set(told)
        assert {2, 3, 4, 5, 7, 8, 9, 10} <= set(told)

    told: list[int] = []
    with virtual(disk) as journal:
        run(main(), seed=seed, shuffle=True)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_f09_a_failed_sync_reaches_all_who_wait_and_nothing_of_it_is_found(disk: SimulatedDisk, error: int) -> None:
    async def main() -> None:
        results = await asyncio.gather(
            *(journal.durable(journal.append(64, 0, {"n": n})) for n in range(5)), return_exceptions=True
        )
        assert [type(result) for result in results] == [JournalError] * 5
        assert all(os.strerror(error) in str(result) for result in results)
        with pytest.raises(JournalError, match=os.strerror(error)):
            await journal.durable(journal.append(64, 0, {}))

    with virtual(disk) as journal:
        disk.fail_at(6, error)  # five writes, then the sync
        run(main())
    for model in (Crash.KILLED, Crash.LOST):
        with virtual(disk.crash(model)) as journal:
            assert journal.records == ()


def test_an_interrupt_in_the_middle_of_a_sync_is_a_failure_too(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(fd: int) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    with virtual(disk) as journal:
        journal.append(2, 1, {})
        monkeypatch.setattr(disk, "sync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            journal.sync()
        with pytest.raises(JournalError):
            journal.sync()
    with virtual(disk) as journal:
        assert journal.records == ()


def test_waiting_for_what_was_not_written_is_a_mistake(disk: SimulatedDisk) -> None:
    with virtual(disk) as journal, pytest.raises(ValueError, match="record 1 was not appended"):
        run(journal.durable(1))


@pytest.mark.asyncio
async def test_in_real_time_the_loop_goes_on_while_a_thread_syncs(path: Path) -> None:
    journal = await asyncio.to_thread(Journal.open, path)

    async def one(n: int) -> int:
        seq = journal.append(64, 0, {"n": n})
        await journal.durable(seq)
        return seq

    assert await asyncio.gather(*(one(n) for n in range(50))) == list(range(1, 51))
    await asyncio.to_thread(journal.close)
    journal = await asyncio.to_thread(Journal.open, path)
    assert [r.payload["n"] for r in journal.records] == list(range(50))
    await asyncio.to_thread(journal.close)


class Held(LocalFileSystem):
    """Real files whose next sync waits until it is let go, and then perhaps fails."""

    def __init__(self) -> None:
        self.hold = False
        self.error = 0
        self.entered, self.go = threading.Event(), threading.Event()

    def sync(self, fd: int) -> None:
        if self.hold:
            self.hold = False
            self.entered.set()
            assert self.go.wait(30)
            if self.error:
                raise OSError(self.error, os.strerror(self.error))
        super().sync(fd)


@pytest.mark.asyncio
@pytest.mark.parametrize("error", [0, errno.EIO])
async def test_while_a_thread_syncs_others_append_and_the_one_who_began_it_may_be_cancelled(
    path: Path, error: int
) -> None:
    system = Held()
    journal = await asyncio.to_thread(Journal.open, path, files=SystemFiles(system))

    async def one(n: int) -> int:
        seq = journal.append(64, 0, {"n": n})
        await journal.durable(seq)
        return seq

    system.hold, system.error = True, error
    first = asyncio.create_task(one(0))
    await asyncio.to_thread(system.entered.wait, 30)
    later = [asyncio.create_task(one(n)) for n in (1, 2, 3)]
    await asyncio.sleep(0)
    first.cancel()
    system.go.set()
    results = await asyncio.gather(first, *later, return_exceptions=True)
    await asyncio.to_thread(journal.close)
    journal = await asyncio.to_thread(Journal.open, path)
    found = [r.payload["n"] for r in journal.records]
    await asyncio.to_thread(journal.close)
    assert isinstance(results[0], asyncio.CancelledError)
    if error:
        assert [type(result) for result in results[1:]] == [JournalError] * 3
        assert found == []
    else:
        assert results[1:] == [2, 3, 4]
        assert found == [0, 1, 2, 3]
