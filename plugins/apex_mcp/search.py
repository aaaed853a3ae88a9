"""Regular-expression search that cannot hang: patterns run in a process that the system ends when its time is over.

Python's own expressions, on every machine the same, in place of a linear-time engine that would be there on some. The
second of processor time begins when the texts are loaded, so that only the matching is counted.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from .refusal import Refused

MOST_HITS = 200
CPU_S = 1
_WALL_S = 20.0
_LITERAL = re.compile(r"[\w \-/:,;=<>!@#%&'\"`~]*")

_WORKER = """
import json, re, signal, sys
cpu_s, most = int(sys.argv[1]), int(sys.argv[2])
try:
    import resource
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s + 9, cpu_s + 9))
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
except (ImportError, ValueError):
    pass
asked = json.load(sys.stdin)
skip = asked["skip"]
signal.setitimer(signal.ITIMER_PROF, cpu_s)  # SIGPROF ends the process, also in the middle of a match
try:
    find = re.compile(asked["pattern"]).search
except (re.error, RecursionError, OverflowError, MemoryError) as error:
    print(json.dumps({"error": str(error)}))
    sys.exit()
hits = []
for path, text in asked["files"].items():
    done = skip.get(path, 0)
    for number, line in enumerate(text.split("\\n"), 1):
        if number > done and find(line):
            hits.append([path, number, line[:200]])
            if len(hits) > most:
                print(json.dumps({"hits": hits}))
                sys.exit()
print(json.dumps({"hits": hits}))
"""


def search(
    pattern: str, files: Mapping[str, str], *, skip: Mapping[str, int] | None = None, wall_s: float = _WALL_S
) -> list[tuple[str, int, str]]:
    """Matching lines as (path, line, text), at most one more than ``MOST_HITS``; not the first lines that ``skip`` names.

    Raises Refused.
    """
    skip = skip or {}
    if len(pattern) > 1000:
        raise Refused("E_ARG", "the pattern is longer than 1,000 characters")
    if _LITERAL.fullmatch(pattern):
        return _literal(pattern, files, skip)
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-B", "-W", "ignore", "-c", _WORKER, str(CPU_S), str(MOST_HITS)],
            input=json.dumps({"pattern": pattern, "files": dict(files), "skip": dict(skip)}).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=min(_WALL_S, wall_s),
            env={},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Refused("E_TIMEOUT", "the pattern took too long") from None
    if done.returncode > 0:
        raise Refused("E_IO", "the search process failed")
    if done.returncode:
        raise Refused("E_TIMEOUT", f"the pattern took more than {CPU_S} s of CPU time or too much memory")
    answer: dict[str, Any] = json.loads(done.stdout)
    if "error" in answer:
        raise Refused("E_ARG", f"not a regular expression: {answer['error']}")
    return [(path, number, text) for path, number, text in answer["hits"]]


def _literal(text: str, files: Mapping[str, str], skip: Mapping[str, int]) -> list[tuple[str, int, str]]:
    hits: list[tuple[str, int, str]] = []
    for path, content in files.items():
        for number, line in enumerate(content.split("\n"), 1):
            if text in line and number > skip.get(path, 0):
                hits.append((path, number, line[:200]))
                if len(hits) > MOST_HITS:
                    return hits
    return hits
