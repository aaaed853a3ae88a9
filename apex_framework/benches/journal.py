"""The journal under ``kill -9``, and what its promise costs beside a plain ``os.write`` and ``fsync`` loop.

A writer process appends records, some of them switches, acknowledges over a pipe what ``durable`` or ``sync`` told it, and is
killed at a random moment; then the journal is opened. ``lost`` counts acknowledged records that are not there,
``phantom`` records that are not the ones that the writer was at: both must be 0. A kill leaves the page cache alone, so
this proves the order of writing and telling; that what is told is also synced is proved on the simulated disk.
"""

from __future__ import annotations

import asyncio
import os
import random
import select
import signal
import statistics
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..runtime.journal import ABORT, COMMIT, INTENT, Journal

CYCLES = 500
PER_FILE = 50
"""Cycles that work on one journal before a new one is begun."""
WRITERS = 8
"""Tasks that write in the killed process at the same time: so many records may be found that nobody was told of."""
APPENDS = 5_000
SYNCS = 300
_ACK = struct.Struct(">Q")


def run(args: Any = None) -> Iterator[dict[str, object]]:
    """Rows of bench ``journal``. ``args.n`` is the number of killed processes, ``args.seed`` chooses the moments."""
    cycles = int(getattr(args, "n", None) or CYCLES)
    seed = int(getattr(args, "seed", None) or 0)
    with tempfile.TemporaryDirectory() as folder:
        yield from _rows_of_kills(kill_cycles(Path(folder), cycles, seed))
        yield from _rows_of_speed(Path(folder))


@dataclass
class Kills:
    """What so many killed writers left: totals over all of them."""

    cycles: int = 0
    acknowledged: int = 0
    found_untold: int = 0
    lost: int = 0
    phantom: int = 0
    cut: int = 0
    """Openings that cut a torn tail."""
    seconds: float = 0.0


def kill_cycles(folder: Path, cycles: int, seed: int = 0) -> Kills:
    """Let so many processes write and be killed, one after the other, and judge every journal that they leave."""
    rng = random.Random(seed)
    kills = Kills()
    started = time.perf_counter()
    for cycle in range(cycles):
        if cycle % PER_FILE == 0:
            path, before = folder / f"kills-{cycle}", 0
        told = _write_until_killed(path, rng.random() * 0.03)
        with Journal.open(path) as journal:
            records = journal.records
        kills.cut += journal.cut > 0
        seqs = max([before, *told])
        kills.acknowledged += len(told)
        kills.lost += sum(seq > len(records) for seq in told) + max(before - len(records), 0)
        kills.found_untold += max(len(records) - seqs, 0)
        kills.phantom += max(len(records) - seqs - WRITERS, 0)
        kills.phantom += sum((r.kind, r.epoch, r.payload) != _entry(r.seq) for r in records)
        before = len(records)
        kills.cycles += 1
    kills.seconds = time.perf_counter() - started
    return kills


def _entry(seq: int) -> tuple[int, int, dict[str, Any]]:
    """What the writer writes as record ``seq``, so that the judge knows without asking it."""
    kind = (INTENT, COMMIT, 64, 65, ABORT)[seq % 5]
    return kind, seq // 5, {"seq": seq, "text": "x" * (seq * 37 % 900)}


def _write_until_killed(path: Path, seconds: float) -> list[int]:
    """Fork a writer, kill it so many seconds after its first answer, and return what it acknowledged."""
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(receiving)
            asyncio.run(_write(path, sending))
            status = 0
        finally:
            os._exit(status)
    os.close(sending)
    try:
        if not select.select([receiving], [], [], 30.0)[0]:
            raise TimeoutError("the writer acknowledged nothing for 30 seconds")
        time.sleep(seconds)
    finally:
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    with os.fdopen(receiving, "rb") as pipe:
        data = pipe.read()
    if not os.WIFSIGNALED(status):
        raise RuntimeError(f"the writer ended by itself, with status {status}")
    whole = len(data) - len(data) % _ACK.size
    return [seq for (seq,) in _ACK.iter_unpack(data[:whole])]


async def _write(path: Path, answers: int) -> None:
    """Write for ever: several tasks, each waits for its record before it answers."""
    with Journal.open(path) as journal:
        last = len(journal.records)

        def append() -> int:
            nonlocal last
            last += 1
            kind, epoch, payload = _entry(last)
            return journal.append(kind, epoch, payload)

        async def writer() -> None:
            while True:
                seq = append()
                if seq % 7 == 0:
                    journal.sync()
                else:
                    await journal.durable(seq)
                os.write(answers, _ACK.pack(seq))

        async with asyncio.TaskGroup() as group:
            for _ in range(WRITERS):
                group.create_task(writer())


def _rows_of_kills(kills: Kills) -> Iterator[dict[str, object]]:
    for metric in ("cycles", "acknowledged", "found_untold", "cut", "lost", "phantom"):
        yield _row("kill -9", "apex", metric, getattr(kills, metric), "")
    yield _row("kill -9", "apex", "cycles per second", round(kills.cycles / kills.seconds, 1), "1/s")


def _rows_of_speed(folder: Path) -> Iterator[dict[str, object]]:
    payload = {"text": "x" * 200}
    with Journal.open(folder / "speed") as journal:
        journal.append(64, 0, payload)
        plain = os.open(folder / "plain", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        data = b"x" * (len((folder / "speed").read_bytes()) - 44)
        contenders: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
            "apex": (lambda: journal.append(64, 0, payload), journal.sync),
            "os.write": (lambda: os.write(plain, data), lambda: os.fsync(plain)),
        }
        try:
            yield from _rows_of_appends(contenders)
            yield from _rows_of_syncs(contenders)
        finally:
            os.close(plain)
        rates: dict[int, list[float]] = {1: [], 8: [], 64: []}
        for _ in range(3):
            for waiters, seen in rates.items():
                seen.append(asyncio.run(_group(journal, payload, waiters)))
    for waiters, seen in rates.items():
        yield _row("group commit", "apex", f"{waiters} waiting", round(statistics.median(seen)), "records/s")
        gain = statistics.median(many / one for many, one in zip(seen, rates[1], strict=True))
        yield _row("group commit", "apex", f"{waiters} against 1", round(gain, 2), "x")


def _rows_of_appends(
    contenders: dict[str, tuple[Callable[[], object], Callable[[], object]]],
) -> Iterator[dict[str, object]]:
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(5):
        for name, (append, sync) in contenders.items():
            started = time.perf_counter()
            for _ in range(APPENDS // 5):
                append()
            rates[name].append(APPENDS / 5 / (time.perf_counter() - started))
            sync()
    for name, seen in rates.items():
        yield _row("append, not synced", name, "throughput", round(statistics.median(seen)), "records/s")


def _rows_of_syncs(
    contenders: dict[str, tuple[Callable[[], object], Callable[[], object]]],
) -> Iterator[dict[str, object]]:
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(SYNCS):
        for name, (append, sync) in contenders.items():  # in turns: the disk's moods meet both
            started = time.perf_counter()
            append()
            sync()
            taken[name].append((time.perf_counter() - started) * 1000)
    for name, seen in taken.items():
        quantiles = statistics.quantiles(seen, n=20)
        yield _row("append and sync", name, "p50", round(quantiles[9], 3), "ms")
        yield _row("append and sync", name, "p95", round(quantiles[18], 3), "ms")
        yield _row("append and sync", name, "throughput", round(1000 / statistics.mean(seen)), "records/s")


async def _group(journal: Journal, payload: dict[str, Any], waiters: int) -> float:
    """Records per second that so many tasks get on disk, each waiting for one before it writes the next."""
    rounds = SYNCS // 9

    async def one() -> None:
        for _ in range(rounds):
            await journal.durable(journal.append(64, 0, payload))

    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(waiters):
            group.create_task(one())
    return waiters * rounds / (time.perf_counter() - started)


def _row(case: str, contender: str, metric: str, value: float, unit: str) -> dict[str, object]:
    return {"bench": "journal", "case": case, "contender": contender, "metric": metric, "value": value, "unit": unit}
