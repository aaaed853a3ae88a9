"""Guard 6 on forty tasks: ``python tests/guards/forty.py OUT.jsonl`` writes an episode's verdict per line, for ``apex suite import``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "kernel" / "episode")]

from ears import Ears  # noqa: E402 - importable only now
from stage import Stage  # noqa: E402 - importable only now

TASKS = 40
ARMS: dict[str, dict[str, Any]] = {
    "whole": {},
    **{f"without_{kind}": {"backends": {"*": f"blind:{kind}"}} for kind in ("SUSPICIOUS", "FAILING", "TRIED")},
    "mute_critic": {"team": "swe_mute:critic"},
}


def main(out: Path) -> None:
    stage = Stage(suite="mini", limit=TASKS, ears=Ears())
    lines = []
    try:
        for task in stage.shop.suite.tasks("dev"):
            for arm, setting in ARMS.items():
                found = stage.play(task.id, controller="static:flat", **setting).record
                said = {key: found[key] for key in ("success", "tokens", "steps", "cluster", "family")}
                lines.append(json.dumps({"arm": arm, "task": task.id, **said}, separators=(",", ":")) + "\n")
                print(arm, task.id, said["success"], flush=True)
    finally:
        stage.close()
    out.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
