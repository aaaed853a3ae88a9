"""Run folders for commands that judge: of every arm is said how many of the first tasks it solves."""

from __future__ import annotations

import json
from pathlib import Path


def episodes(path: Path, arm: str, solved: int, *, tasks: int = 80, digest: str = "d") -> Path:
    """Lines of one arm, two tasks to a cluster."""
    rows = [
        {
            "arm": arm,
            "task_id": f"t{i:02}",
            "seed": 0,
            "success": i < solved,
            "tokens": 4_000,
            "steps": 8,
            "switches": 0,
            "denied": 0,
            "status": "done",
            "cluster": f"m{i % 40}",
            "suite_digest": digest,
            "wall_ms": 900.0 + i,
        }
        for i in range(tasks)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def run_folder(path: Path, solved: dict[str, int], *, digest: str = "d", budget: int = 10_000) -> Path:
    """A run folder without a manifest."""
    path.mkdir()
    lines = "".join(episodes(path / "part", arm, n, digest=digest).read_text() for arm, n in solved.items())
    (path / "part").unlink()
    (path / "episodes.jsonl").write_text(lines)
    plan = {
        "suite": "mini",
        "split": "dev",
        "suite_digest": digest,
        "level": "L2",
        "tasks": [[f"t{i:02}", f"m{i % 40}", ""] for i in range(80)],
        "arms": [{"name": arm, "team": "swe", "controller": arm, "budget": budget} for arm in solved],
        "seeds": [0],
    }
    (path / "run.json").write_text(json.dumps({"format": 1, "plan": plan}))
    return path
