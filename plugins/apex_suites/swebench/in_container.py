"""The package ``swebench`` judging one patch in a container, as a program: a question on its input, an answer on its output, both JSON.

Everything is the package's own: the image, how the patch is applied, the script that runs the tests, the report. It works in the
current folder, where it leaves its logs. SIGTERM ends it after it has removed its container.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swebench.harness import constants, run_evaluation

MODEL = "apex"


def judge(row: Mapping[str, Any], patch: str, run_id: str, timeout_s: int) -> dict[str, Any]:
    """The package's report; ``not_resolved`` without one where the package says that of the patch; else ``error``.

    Without a patch the tests are run as they are.
    """
    name = row["instance_id"]
    prediction = {"instance_id": name, "model_name_or_path": MODEL, "model_patch": patch}
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        run_evaluation.run_instances({name: prediction}, [dict(row)], 0, run_id, timeout_s, skip_patch=not patch)
    logs = Path(constants.RUN_EVALUATION_LOG_DIR) / run_id / MODEL / name
    with contextlib.suppress(FileNotFoundError):
        made: dict[str, Any] = json.loads((logs / constants.LOG_REPORT).read_text(encoding="utf-8"))
        return {"report": made[name]}
    why = _why(told.getvalue(), name) or _last_error(logs / constants.LOG_INSTANCE)
    if why.startswith(constants.APPLY_PATCH_FAIL):
        return {"not_resolved": "the patch does not apply"}
    if why.startswith("Test timed out"):
        return {"not_resolved": why}
    return {"error": why or "the package says nothing"}


def _why(told: str, name: str) -> str:
    """What it printed of an error that it knows; code under test prints nothing here."""
    return told.partition(f"Error in evaluation for {name}: ")[2].partition("\n")[0].strip()


def _last_error(log: Path) -> str:
    """Of one that it does not know."""
    with contextlib.suppress(OSError):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        return next((line.partition(": ")[2] for line in reversed(lines) if "Error in evaluating model" in line), "")
    return ""


def _end(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Answer one question."""
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    signal.signal(signal.SIGTERM, _end)
    try:
        answer = judge(**json.load(sys.stdin))
    except Exception as error:  # noqa: BLE001 - whatever the package or the engine stumbles over
        answer = {"error": f"{type(error).__name__}: {error}"}
    with output:
        json.dump(answer, output)


if __name__ == "__main__":
    main()
