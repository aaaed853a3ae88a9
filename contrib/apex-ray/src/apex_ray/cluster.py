"""The connection to a cluster: found, tried out with a deadline, and closed again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import ray

from apex_framework.errors import ExecutorError

from .options import Options

STORE_BYTES: Final = 100 * 2**20
"""Of a Ray that is started here: episodes' results are small."""
_TRY: Final = """
import sys
try:
    import ray
    ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR", configure_logging=False)
except Exception as error:
    print(" ".join(str(error).split())[:400])
    sys.exit(3)
ray.shutdown()
"""


class Cluster:
    """Connects when it is opened; leaves alone a connection that the program already has."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._ours = False

    def open(self) -> None:
        """Connect, or start Ray here where no cluster is named or found. Idempotent. Raises ExecutorError."""
        if ray.is_initialized():
            return
        # Both are read when Ray begins: nothing is told to anybody, and no GPU is hidden or warned of.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        named = self._options.address or os.environ.get("RAY_ADDRESS", "")
        address = named or "auto"
        if address != "local" and (refused := self._refused(address)):
            if named or "any running Ray instance" not in refused:
                raise ExecutorError(
                    f"the Ray cluster at {address} cannot be used: {refused}",
                    "name its head as address=HOST:PORT; this machine must be a part of it: ray start --address=HOST:PORT",
                )
            address = "local"
        local: dict[str, Any] = {"object_store_memory": STORE_BYTES, "include_dashboard": False}
        with _our_signals():
            ray.init(
                address=address,
                log_to_driver=False,  # Ray would write it to stdout, which is for data
                logging_level="ERROR",
                **(local if address == "local" else {}),
            )
        self._ours = True
        _quiet()

    def close(self) -> None:
        """Disconnect, which ends every actor of ours; a Ray that was started here ends. Idempotent."""
        if self._ours:
            self._ours = False
            with _our_signals():
                ray.shutdown()

    def _refused(self, address: str) -> str:
        """Why the cluster cannot be used; empty when it can. In a process of its own: Ray waits for minutes, or aborts."""
        command = [sys.executable, "-c", _TRY, address]
        try:
            tried = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self._options.connect_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"no answer within {self._options.connect_s:g} s"
        said = tried.stdout.strip().splitlines()
        if tried.returncode and "Unauthenticated" in tried.stderr:
            return "it wants its token (RAY_AUTH_MODE=token, and the token of its head in ~/.ray/auth_token)"
        return "" if tried.returncode == 0 else (said[-1] if said else f"Ray ended with status {tried.returncode}")


@contextmanager
def _our_signals() -> Iterator[None]:
    """Ray takes SIGTERM for itself; whoever runs episodes has handlers of its own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _quiet() -> None:
    """Ray prints what nodes complain of to stdout, and has no public switch for it."""
    worker: Any = getattr(getattr(ray, "_private", None), "worker", None)
    if hasattr(worker, "_worker_logs_enabled"):
        worker._worker_logs_enabled = False
