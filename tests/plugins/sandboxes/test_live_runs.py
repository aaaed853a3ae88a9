"""``apex run`` with a live model: confined where that is possible, refused or warned of where it is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from apex_framework.testing.servers import Model, OpenAIServer
from apex_sandboxes.landlocked import LandlockSandbox

pytest.importorskip("aiohttp", reason="the extra [http] is not installed")

LIVE = ["run", "--backend", "openai:tiny", "--real-time", "--workers", "1", "--no-baselines", "--controller", "single"]


def apex(server: OpenAIServer, folder: Path, out: str, *first: str, more: tuple[str, ...] = ()) -> Any:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("APEX_", "OPENAI_"))}
    return subprocess.run(
        [sys.executable, "-m", "apex_framework", *first, *LIVE, "--episodes", "1", "--out", out, *more],
        env={**kept, "APEX_OPENAI_BASE_URL": server.url, "XDG_STATE_HOME": str(folder / "state")},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


@pytest.mark.slow
def test_live_models_are_confined_refused_or_warned_of(strong: LandlockSandbox, tmp_path: Path) -> None:
    with OpenAIServer(Model("tiny", context_tokens=100_000)) as server:
        confined = apex(server, tmp_path, "confined")
        refused = apex(server, tmp_path, "refused", "-p", "no:sandboxes")
        weaker = apex(server, tmp_path, "weaker", "-p", "no:sandboxes", more=("--allow-weaker-sandbox",))
    assert confined.returncode == 0, confined.stderr
    run = json.loads((tmp_path / "confined" / "run.json").read_text())
    assert run["sandbox"]["level"] in ("LANDLOCK", "NAMESPACES") and run["sandbox"]["demanded"] == "LANDLOCK"
    assert "without a sandbox" not in confined.stderr
    assert refused.returncode == 3 and not (tmp_path / "refused").exists()
    assert "code that openai:tiny writes needs a sandbox" in refused.stderr and "Traceback" not in refused.stderr
    assert weaker.returncode == 0, weaker.stderr
    assert weaker.stderr.count("runs without a sandbox that holds it: plain achieves RLIMITS here") == 1
    run = json.loads((tmp_path / "weaker" / "run.json").read_text())
    assert (run["sandbox"]["name"], run["sandbox"]["level"]) == ("plain", "RLIMITS")
    assert any("network" in lack for lack in run["sandbox"]["lacks"])
