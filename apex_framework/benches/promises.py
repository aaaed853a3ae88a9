"""What the runtime, the model service or experiments promise, and whether it is kept here: one row per promise.

``--of runtime`` (the default), ``--of service`` or ``--of experiments``: the other benches in short form.

Every row gives the specification's figure, ours, what was measured on this machine in this run, and whether ours was
met: yes, no, or why it was not measured. Each bench runs once, with the options in ``SHORT``; the rows it printed are
written beside the table when ``--out`` is given. The whole takes a few minutes; interrupted, it shows what it has.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from .. import benches
from ..errors import UsageError
from .experiment_numbers import EXPERIMENTS
from .numbers import PROMISES, Found, Promise, Row
from .service_numbers import SERVICE

OPTIONS = frozenset({"seed", "seeds", "of"})
SHORT: Mapping[str, Mapping[str, object]] = {
    "epoch": {"n": 100_000},
    "switch": {"seconds": 5.0},
    "stress": {"seeds": 20, "only": ("apex", "lanes of 10,000")},
    "health": {"seeds": 4},
    "simulate": {"seeds": 1_000},
    "telemetry": {"n": 10_000},
    "degradation": {"seeds": 1},
}
"""Bench -> options of its short form."""
SERVICE_SHORT: Mapping[str, Mapping[str, object]] = {
    "overspend": {"seeds": 10},
    "instances": {"n": 5},
    "multi_scope": {"n": 15},
    "plan_cache": {"n": 16},
}
"""The same for the service; ``--seeds`` are those of bench overspend, of which 1,000 take half an hour."""


def run(args: Any = None) -> Iterator[dict[str, object]]:
    """Rows of bench ``promises``; ``args.say`` hears of progress, ``args.out`` is where the rows of the benches go."""
    say = getattr(args, "say", None) or (lambda _: None)
    out, seed, seeds = (getattr(args, name, None) for name in ("out", "seed", "seeds"))
    of = getattr(args, "of", None)
    if seeds is not None and of != "service":
        raise UsageError("--seeds are those of bench overspend", "apex bench promises --of service --seeds N")
    tables = {"service": (SERVICE, SERVICE_SHORT), "experiments": (EXPERIMENTS, {})}
    promises, short = tables.get(of or "", (PROMISES, SHORT))
    order = list(dict.fromkeys(promise.bench for promise in promises))
    interrupted = False
    for number, name in enumerate(order, 1):
        rows: list[Row] = []
        trouble = "interrupted" if interrupted else ""
        if not interrupted:
            say(f"[{number}/{len(order)}] bench {name}")
            began = time.monotonic()
            try:
                given = {**short.get(name, {}), "seed": seed}
                if seeds is not None and name == "overspend":
                    given["seeds"] = seeds
                trouble = _measure(name, SimpleNamespace(**given), rows)
            except KeyboardInterrupt:
                interrupted, trouble = True, "interrupted"
            say(f"[{number}/{len(order)}] bench {name}: {trouble or f'{time.monotonic() - began:.0f} s'}")
            if out is not None:
                _write(Path(out), name, rows)
        for promise in promises:
            if promise.bench == name:
                yield judged(promise, rows, trouble)
    if interrupted:
        raise KeyboardInterrupt


def _measure(name: str, args: Any, rows: list[Row]) -> str:
    """Run one bench; why not, or empty."""
    if name not in benches.names():
        return f"there is no bench {name}"
    try:
        rows.extend(benches.module(name).run(args))
    except Exception as error:  # noqa: BLE001 - one broken bench must not hide the others; it is told in its rows
        return f"{type(error).__name__}: {error}"
    return ""


def judged(promise: Promise, rows: Iterable[Row], trouble: str = "") -> dict[str, object]:
    """A promise's row."""
    rows, answer = list(rows), None
    if not trouble:
        try:
            answer = promise.judge(Found(rows))
        except LookupError as error:
            missing = [str(row["contender"]) for row in rows if row["metric"] == "not installed"]
            trouble = f"bench {promise.bench} says nothing of it ({error})"
            if missing:
                remedy = f": pip install 'apex-framework[{promise.extra}]'" if promise.extra else ""
                trouble = f"{', '.join(missing)} is not installed{remedy}"
    met = "not measured" if answer is None else "yes" if answer.met else "no"
    return {
        "bench": "promises",
        "case": promise.what,
        "contender": "apex",
        "metric": f"bench {promise.bench}",
        "value": answer.value if answer else None,
        "unit": answer.unit if answer else "",
        "specification": promise.specification,
        "ours": promise.ours,
        "measured": answer.measured if answer else trouble,
        "met": met,
    }


def _write(folder: Path, name: str, rows: Iterable[Row]) -> None:
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (folder / benches.artifact(name)).write_text(lines, encoding="utf-8")


def text(row: Row) -> str:
    """A promise for people: three lines."""
    return (
        f"{row['met']!s:>12}  {row['case']}\n"
        f"{'':14}measured: {row['measured']}\n"
        f"{'':14}ours: {row['ours']}; specification: {row['specification']}"
    )
