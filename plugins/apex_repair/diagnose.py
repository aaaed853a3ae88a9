"""The answer to ``diagnose``: lines that most likely cause a failure."""

from __future__ import annotations

from .evidence import Evidence, is_test_file, same_file

MOST_CAUSES = 5


def diagnose(evidence: Evidence) -> list[tuple[str, str]]:
    """Up to five (path:line, why), most suspicious first; empty when nothing points anywhere."""
    points: dict[tuple[str, int], float] = {}
    why: dict[tuple[str, int], list[str]] = {}
    for (path, line), suspicion in evidence.suspicion.items():
        points[path, line] = suspicion
        why[path, line] = [f"suspicion {suspicion:.2f}"]
    for frame in evidence.frames:
        if is_test_file(frame.path):
            continue
        at = _listed(points, frame.path, frame.line)
        points[at] = points.get(at, 0.2) + 0.5 / (1 + frame.depth)
        why.setdefault(at, []).append("raised here" if frame.depth == 0 else "on the traceback")
    for tried in evidence.tried:
        for path, line in tried.places:
            at = _listed(points, path, line)
            if at in points and not tried.improved:
                points[at] *= 0.9
            elif tried.improved:
                points[at] = points.get(at, 0.2) + 0.5
                why.setdefault(at, []).append("a change here helped")
    best = sorted(points, key=lambda at: (-points[at], at))[:MOST_CAUSES]
    return [(f"{path}:{line}", ", ".join(dict.fromkeys(why[path, line]))) for path, line in best]


def _listed(points: dict[tuple[str, int], float], path: str, line: int) -> tuple[str, int]:
    """The place as it is spelled already, if it is."""
    return next((at for at in points if at[1] == line and same_file(at[0], path)), (path, line))
