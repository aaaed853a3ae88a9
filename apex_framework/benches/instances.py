"""What several instances of a local model answer together, beside one instance and beside the library alone.

The same calls for each: as many at a time as there are instances, every role on an instance of its own, one thread per
instance. Rounds of the contenders are interleaved, the first is dropped. ``llama.cpp`` is the library itself, in one
process, without us; the limit is the number of processors. Model: APEX_GGUF_MODEL_PATH, else a tiny one made on the spot.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

INSTANCES: Final = 5
TOKENS: Final = 1000
ROUNDS: Final = 7
PROMPT: Final = "Explain what a queue is, and when to use one."

_ALONE: Final = """
import sys, time, llama_cpp
llm = llama_cpp.Llama(model_path=sys.argv[1], n_ctx=2048, n_threads=1, n_threads_batch=1, verbose=False)
prompt, tokens = llm.tokenize(sys.argv[2].encode()), int(sys.argv[3])
for line in sys.stdin:
    started = time.perf_counter()
    for call in range(int(line)):
        llm.reset()
        for n, token in enumerate(llm.generate(prompt, temp=0.0, top_k=0, min_p=0.0, repeat_penalty=1.0), 1):
            if n == tokens:
                break
    print(int(line) * tokens / (time.perf_counter() - started), flush=True)
"""


def run(args: Any = None) -> Iterator[dict[str, object]]:
    """Rows of bench ``instances``: tokens per second of all calls together. ``args.n`` is the number of rounds."""
    rounds = int(getattr(args, "n", None) or ROUNDS)
    if importlib.util.find_spec("llama_cpp") is None:
        yield _row("generate", "llama_cpp", "not installed", 1.0, "")
        return
    with tempfile.TemporaryDirectory() as folder:
        named = os.environ.get("APEX_GGUF_MODEL_PATH")
        yield from _measure(Path(named) if named else _tiny(Path(folder)), rounds)


def _row(case: str, contender: str, metric: str, value: float, unit: str) -> dict[str, object]:
    return {"bench": "instances", "case": case, "contender": contender, "metric": metric, "value": value, "unit": unit}


def _tiny(folder: Path) -> Path:
    from ..testing.gguf import write_tiny_gguf

    return write_tiny_gguf(folder / "tiny.gguf")


def _measure(model: Path, rounds: int) -> list[dict[str, object]]:
    argv = [sys.executable, "-c", _ALONE, str(model), PROMPT, str(TOKENS)]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as alone:
        rates = asyncio.run(_rounds(model, rounds, lambda: _alone(alone)))
    rows = [
        _row("generate", contender, metric, round(value, 1), "tokens/s")
        for contender, found in rates.items()
        for metric, value in (
            ("median", statistics.median(found[1:])),
            ("min", min(found[1:])),
            ("max", max(found[1:])),
        )
    ]
    one, many = rates["1 instance"][1:], rates[f"{INSTANCES} instances"][1:]
    pairs = sorted(b / a for a, b in zip(one, many, strict=True))
    for metric, value in (
        ("median ratio", statistics.median(pairs)),
        ("min ratio", pairs[0]),
        ("max ratio", pairs[-1]),
    ):
        rows.append(_row("generate", f"{INSTANCES} instances / 1 instance", metric, round(value, 3), "x"))
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    rows.append(_row("generate", "limit", "processors", float(processors), "x"))
    return rows


def _alone(process: subprocess.Popen[str]) -> float:
    """Tokens per second of the library without us, one call after the other."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{INSTANCES}\n")
    process.stdin.flush()
    return float(process.stdout.readline())


async def _rounds(model: Path, rounds: int, alone: Callable[[], float]) -> dict[str, list[float]]:
    from ..plugins import load_plugins

    catalog = load_plugins().catalog
    options: dict[str, Any] = {"path": model, "threads": 1, "context": 2048}
    fleets = {n: catalog.make("llm_backend", "llama_cpp", instances=n, **options) for n in (1, INSTANCES)}
    rates: dict[str, list[float]] = {}
    try:
        for fleet in fleets.values():
            await fleet.warm()
        for _ in range(rounds + 1):
            rates.setdefault("llama.cpp alone", []).append(await asyncio.to_thread(alone))
            for n, fleet in fleets.items():
                rates.setdefault(f"{n} instance{'s' * (n > 1)}", []).append(await _round(fleet, n))
    finally:
        for fleet in fleets.values():
            await fleet.close()
    return rates


async def _round(fleet: Any, instances: int) -> float:
    """Tokens per second of as many calls as there are instances in the largest fleet, all at once."""
    from ..interfaces import LLMRequest

    started = time.perf_counter()
    requests = [LLMRequest(PROMPT, TOKENS, seed=n, role=role) for n, role in enumerate(_roles(instances))]
    results = await asyncio.gather(*(fleet.generate(request) for request in requests))
    return float(sum(result.tokens_out for result in results) / (time.perf_counter() - started))


def _roles(instances: int) -> list[str]:
    """One role for each call, spread evenly over the instances."""
    from ..workers.fleet import instance_of

    roles = (f"role-{n}" for n in range(10_000))
    wanted = [call % instances for call in range(INSTANCES)]
    return [next(role for role in roles if instance_of(role, instances) == place) for place in wanted]
