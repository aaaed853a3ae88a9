"""What a pool of connections saves: the same requests with it and without, one after the other, interleaved.

Three settings: loopback, loopback with TLS (a throw-away authority), and loopback with 5 ms added to every new connection
and to every answer, which stands for the distance to a server: a connect itself cannot be delayed here, so that without
a pool the first 5 ms show in the request, not in the time to acquire. The server is a process of its own. With
``--backend`` the setting is that backend's own server, with and without a pool.
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
from .models import chosen
from .paired import at

REQUESTS = 200
WARM_UP = 5
RTT_MS = 5.0
SETTINGS = ("loopback", "loopback TLS", f"{RTT_MS:g} ms RTT")
CONTENDERS = {"on": "pool", "off": "no pool"}
AT_ONCE = 8

Taken = dict[str, list[dict[str, float]]]
"""With a pool (``on``) or without -> milliseconds of every request, and connections in use."""


def run(args: Any = None) -> Iterator[dict[str, object]]:
    """Rows of bench ``pooling``, in milliseconds. ``args.n`` is the number of requests, ``args.pooling`` on, off or both.

    With ``args.singly`` every request is a row, too, with its ``pool_acquire_ms``.
    """
    requests = max(1, int(getattr(args, "n", None) or REQUESTS))
    asked = [part.strip() for part in (getattr(args, "pooling", None) or "on,off").split(",") if part.strip()]
    if not asked or set(asked) - set(CONTENDERS):
        raise ConfigError(f"pooling must be on, off or on,off, not {','.join(asked)!r}")
    named, singly = getattr(args, "backend", None), bool(getattr(args, "singly", None))
    for name in dict.fromkeys(chosen(named).values()) if named is not None else ():
        yield from _summed(name, asyncio.run(_measure(name, [*dict.fromkeys(asked)], requests)), singly)
    for setting in SETTINGS if named is None else ():
        with tempfile.TemporaryDirectory() as folder:
            try:
                options, ca_file = _tls(Path(folder)) if "TLS" in setting else ([], "")
            except ImportError:
                yield _row(setting, "trustme", "not installed", 1.0, "")
                continue
            if "RTT" in setting:
                options = ["--rtt-ms", str(RTT_MS)]
            with server("openai", *options) as url:
                taken = asyncio.run(
                    _measure("openai:tiny", [*dict.fromkeys(asked)], requests, base_url=url, ca_file=ca_file)
                )
        yield from _summed(setting, taken, singly)


def _summed(setting: str, taken: Taken, singly: bool = False) -> Iterator[dict[str, object]]:
    for name, samples in taken.items():
        for number, each in enumerate(samples) if singly else ():
            yield {
                **_row(setting, CONTENDERS[name], "request", round(each["request"], 3), "ms"),
                "number": number,
                "pool_acquire_ms": round(each["acquire"], 4),
            }
        for what in ("acquire", "request"):
            values = [each[what] for each in samples]
            for share in (50, 95):
                yield _row(setting, CONTENDERS[name], f"{what} p{share}", round(at(values, share), 3), "ms")
        in_use = max(each["in_use"] for each in samples)
        yield _row(setting, CONTENDERS[name], f"pool_conn_in_use, {AT_ONCE} at once", in_use, "")
    if len(taken) == 2:
        off, on = ([each["request"] for each in taken[name]] for name in ("off", "on"))
        yield _row(setting, "pool", "saving p50", round(at(off, 50) - at(on, 50), 3), "ms")


async def _measure(name: str, asked: list[str], requests: int, **options: Any) -> Taken:
    """Every request with a pool and without, in turns. Raises ConfigError for a backend that has no pool."""
    from ..interfaces import LLMRequest
    from ..plugins import load_plugins

    make = load_plugins(safe_mode=not options.get("base_url")).catalog.make
    backends = {how: make("llm_backend", name, pooling=how == "on", **options) for how in asked}
    taken: Taken = {how: [] for how in asked}
    request = LLMRequest("x" * 1000, 8)
    try:
        for number in range(WARM_UP + requests):
            for how, backend in backends.items():
                began = perf_counter()
                await backend.generate(request)
                ended = perf_counter()
                if number >= WARM_UP:
                    acquire = backend.pool_numbers()["pool_acquire_ms"]
                    taken[how].append({"request": (ended - began) * 1000, "acquire": acquire, "in_use": 0.0})
        for how, backend in backends.items():
            taken[how][-1]["in_use"] = await _in_use(backend, request)
    finally:
        for backend in backends.values():
            await backend.close()
    return taken


async def _in_use(backend: Any, request: Any) -> float:
    """The most connections in use while ``AT_ONCE`` requests are under way; apart from what is timed."""
    asking = [asyncio.ensure_future(backend.generate(request)) for _ in range(AT_ONCE)]
    most = 0.0
    while not all(task.done() for task in asking):
        most = max(most, float(backend.pool_numbers()["pool_conn_in_use"]))
        await asyncio.sleep(0.0005)
    await asyncio.gather(*asking)
    return most


def _tls(folder: Path) -> tuple[list[str], str]:
    """Options of a server with a certificate, and the file of the authority that signed it. Raises ImportError."""
    import trustme

    authority, certificate, trusted = trustme.CA(), folder / "server.pem", folder / "ca.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(certificate)
    authority.cert_pem.write_to_path(trusted)
    return ["--certificate", str(certificate)], str(trusted)


@contextlib.contextmanager
def server(kind: str, *options: str) -> Iterator[str]:
    """The address of a test server in a process of its own, while it runs; it ends when its input does."""
    command = [sys.executable, "-m", "apex_framework.testing.servers", kind, *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        assert process.stdin is not None
        process.stdin.close()


def _row(case: str, contender: str, metric: str, value: object, unit: str) -> dict[str, object]:
    return {"bench": "pooling", "case": case, "contender": contender, "metric": metric, "value": value, "unit": unit}
