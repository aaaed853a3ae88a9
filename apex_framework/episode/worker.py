"""A worker process of an executor, seen from inside: take a job, do it, send the result.

For any executor that gives episodes processes of their own: start ``python -c "from apex_framework.episode.worker import main;
main(DESCRIPTOR, 'module:function')"`` with one end of a socket pair, and speak with it by ``multiprocessing``'s Connection.
"""

from __future__ import annotations

import importlib
import logging
import pickle
import signal
import sys
from collections.abc import Callable
from dataclasses import fields
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from types import FrameType

from ..interfaces import EpisodeJob, EpisodeResult, infrastructure_failure


def main(descriptor: int, work: str) -> None:
    """Serve the connection of this descriptor until its other end closes; ``work`` is ``module:function``.

    SIGTERM makes it leave and clean up; SIGINT is ignored: who started the run decides what ends.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group
    signal.signal(signal.SIGTERM, _leave)
    _end_with_parent()
    connection = Connection(descriptor)
    do: Callable[[EpisodeJob], EpisodeResult] | None = None
    while True:
        try:
            job = connection.recv()
        except (EOFError, OSError):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is leaving and cleans up
            return
        try:
            do = do or _load(work)
            result = do(job)
            if not isinstance(result, EpisodeResult):
                raise TypeError(f"{work} returned a {type(result).__name__}, not an EpisodeResult")
        except Exception as error:  # noqa: BLE001 - a worker's edge: whatever breaks, the job comes back as failed
            result = infrastructure_failure(job, f"{type(error).__name__}: {error}")
        try:
            connection.send_bytes(_packed(result, job))
        except OSError:
            return


def _packed(result: EpisodeResult, job: EpisodeJob) -> bytes:
    """As ``Connection.recv`` takes it; of a result that cannot travel, a failure that says what cannot."""
    try:
        return _travels(result)
    except Exception:  # noqa: BLE001 - a worker's edge: a plugin's value may break in any way while it is packed
        return _travels(infrastructure_failure(job, _untransportable(result)))


def _travels(value: object) -> bytes:
    """Pickled, and unpickled to see that it can be."""
    packed = bytes(ForkingPickler.dumps(value))
    pickle.loads(packed)
    return packed


def _untransportable(result: EpisodeResult) -> str:
    for part in fields(result):
        try:
            _travels(getattr(result, part.name))
        except Exception as error:  # noqa: BLE001 - as above
            return f"the episode's {part.name} cannot be sent from its process: {type(error).__name__}: {error}"
    return "the episode's result cannot be sent from its process"


def _load(work: str) -> Callable[[EpisodeJob], EpisodeResult]:
    module, _, name = work.partition(":")
    found: Callable[[EpisodeJob], EpisodeResult] = getattr(importlib.import_module(module), name)
    return found


def _leave(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    logging.disable()  # what is cut off now tells of nothing but this
    sys.exit(128 + number)  # an exception, so that workspaces and processes are cleaned up on the way out


def _end_with_parent() -> None:
    """Where the system can (Linux), a killed parent ends its workers at once; elsewhere they finish their job first."""
    if sys.platform == "linux":
        import ctypes

        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)
