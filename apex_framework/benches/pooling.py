"""What a pool of connections saves: the same requests with it and without, one after the other, interleaved.

Three settings: loopback, loopback with TLS (a throw-away authority), and loopback with 5 ms added to every new connection
and to every answer, which stands for the distance to a server: a connect itself cannot be delayed here, so that without
a pool the first 5 ms show in the request, not in the time to acquire. The server is a process of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from ..errors import ConfigError

REQUESTS = 200
WARM_UP = 5
RTT_MS = 5.0
SETTINGS = ("loopback", "loopback TLS", f"{RTT_MS:g} ms RTT")
CONTENDERS = {"on": "pool", "off": "no pool"}


def run(args: Any = None) -> Iterator[dict[str, object]]:
    """Rows of bench ``pooling``, in milliseconds. ``args.n`` is the number of requests, ``args.pooling`` on, off or both."""
    requests = max(1, int(getattr(args, "n", None) or REQUESTS))
    asked = [part.strip() for part in (getattr(args, "pooling", None) or "on,off").split(",") if part.strip()]
    if not asked or set(asked) - set(CONTENDERS):
        raise ConfigError(f"pooling must be on, off or on,off, not {','.join(asked)!r}")
    for setting in SETTINGS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                options, ca_file = _tls(Path(folder)) if "TLS" in setting else ([], "")
            except ImportError:
                yield _row(setting, "trustme", "not installed", 1.0, "")
                continue
            if "RTT" in setting:
                options = ["--rtt-ms", str(RTT_MS)]
            with _server(options) as url:
                taken = asyncio.run(_measure(url, ca_file, [*dict.fromkeys(asked)], requests))
        for name, samples in taken.items():
            for what in ("acquire", "request"):
                for share in (50, 95):
                    yield _row(setting, CONTENDERS[name], f"{what} p{share}", round(_at(samples[what], share), 3), "ms")
        if len(taken) == 2:
            saved = _at(taken["off"]["request"], 50) - _at(taken["on"]["request"], 50)
            yield _row(setting, "pool", "saving p50", round(saved, 3), "ms")


async def _measure(url: str, ca_file: str, asked: list[str], requests: int) -> dict[str, dict[str, list[float]]]:
    from ..interfaces import LLMRequest
    from ..plugins import load_plugins

    make = load_plugins(safe_mode=True).catalog.make
    backends = {
        name: make("llm_backend", "openai:tiny", base_url=url, ca_file=ca_file, pooling=name == "on") for name in asked
    }
    taken: dict[str, dict[str, list[float]]] = {name: {"acquire": [], "request": []} for name in asked}
    request = LLMRequest("x" * 1000, 8)
    for number in range(WARM_UP + requests):
        for name, backend in backends.items():
            begun = perf_counter()
            await backend.generate(request)
            ended = perf_counter()
            if number >= WARM_UP:
                taken[name]["request"].append((ended - begun) * 1000)
                taken[name]["acquire"].append(backend.pool_numbers()["pool_acquire_ms"])
    for backend in backends.values():
        await backend.close()
    return taken


def _tls(folder: Path) -> tuple[list[str], str]:
    """Options of a server with a certificate, and the file of the authority that signed it. Raises ImportError."""
    import trustme

    authority, certificate, trusted = trustme.CA(), folder / "server.pem", folder / "ca.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(certificate)
    authority.cert_pem.write_to_path(trusted)
    return ["--certificate", str(certificate)], str(trusted)


@contextlib.contextmanager
def _server(options: list[str]) -> Iterator[str]:
    """Its address, while it runs; it ends when its input does."""
    command = [sys.executable, "-m", "apex_framework.testing.servers", "openai", *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        assert process.stdin is not None
        process.stdin.close()


def _at(samples: list[float], share: int) -> float:
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, len(ordered) * share // 100)]


def _row(case: str, contender: str, metric: str, value: object, unit: str) -> dict[str, object]:
    return {"bench": "pooling", "case": case, "contender": contender, "metric": metric, "value": value, "unit": unit}
