"""The answer to ``locate``: which functions of the map to look at."""

from __future__ import annotations

import math
import re
from collections import Counter

from .evidence import Evidence, Function, is_test_file

MOST_FOCUS = 3
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NAME = re.compile(r"[A-Za-z_]\w*")


def name_parts(text: str) -> list[str]:
    """The words inside identifiers, in lower case: ``parseHTTPLine_x`` gives parse, http, line, x."""
    return [w.lower() for w in _WORD.findall(text)]


def locate(evidence: Evidence) -> list[tuple[str, str]]:
    """Up to three (function, why), best first; empty without a map."""
    functions = evidence.functions
    shown = Counter(part for f in functions for part in set(name_parts(f.qualname)))
    rarity = {part: math.log((1 + len(functions)) / count) for part, count in shown.items()}
    issue, output = set(name_parts(evidence.issue)), set()
    names = set(_NAME.findall(evidence.issue))
    for label, text in evidence.failing:
        output.update(name_parts(label))
        output.update(name_parts(text))
        names.update(_NAME.findall(text))
    ranked = []
    for place, function in enumerate(functions):
        reasons = _reasons(function, evidence, issue, output, names, rarity)
        total = sum(weight for weight, _ in reasons) * _wear(function, evidence)
        why = max(reasons, default=(0.0, "nothing better known"))[1]
        ranked.append((-total, place, function.name, why))
    return [(name, why) for _, _, name, why in sorted(ranked)[:MOST_FOCUS]]


def _reasons(
    function: Function,
    evidence: Evidence,
    issue: set[str],
    output: set[str],
    names: set[str],
    rarity: dict[str, float],
) -> list[tuple[float, str]]:
    reasons: list[tuple[float, str]] = []
    parts = set(name_parts(function.qualname))
    last = function.qualname.rpartition(".")[2]
    shared = math.fsum(rarity[p] for p in parts & issue) + 0.6 * math.fsum(rarity[p] for p in (parts & output) - issue)
    if shared:
        reasons.append((shared / math.sqrt(len(parts)), "shares words with the report"))
    if last in names and len(last) > 2:
        reasons.append((2.0, "named in the report"))
    frames = [f for f in evidence.frames if function.holds(f.path, f.line)]
    if frames:
        reasons.append((max(4.0 / (1 + 0.5 * f.depth) for f in frames), "in the traceback"))
    lines = [s for (path, line), s in evidence.suspicion.items() if function.holds(path, line)]
    if lines:
        reasons.append((4.0 * max(lines) + 0.1 * len(lines), "holds suspicious lines"))
    causes = [i for (path, line), i in evidence.causes.items() if function.holds(path, line)]
    if causes:
        reasons.append((2.5 / (1 + min(causes)), "holds an assumed cause"))
    return reasons


def _wear(function: Function, evidence: Evidence) -> float:
    """Less for functions where edits were tried in vain, and for tests."""
    vain = sum(any(function.holds(*p) for p in t.places) and not t.improved for t in evidence.tried)
    vain = max(vain, sum(count for place, count in evidence.worn.items() if function.holds(*place)))
    if function.name in evidence.ruled_out:
        vain += 4
    better = any(t.improved and any(function.holds(*p) for p in t.places) for t in evidence.tried)
    return 0.88**vain * (1.5 if better else 1.0) * (0.1 if is_test_file(function.path) else 1.0)
