"""``python -m apex_framework.scripts.run_llm_bench``: the specification's flags, and the files it writes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from apex_framework.cli.boundary import run
from apex_framework.scripts import run_llm_bench
from apex_framework.testing.servers import Model, OpenAIServer

pytestmark = pytest.mark.skipif(importlib.util.find_spec("aiohttp") is None, reason="the extra [http] is not installed")


def _run(*arguments: object) -> int:
    return run([str(argument) for argument in arguments], run_llm_bench.main, "run_llm_bench")


@pytest.mark.parametrize(("pooling", "files"), [("on", {"on"}), ("off", {"off"}), ("on/off", {"on", "off"})])
def test_a_file_for_each_with_every_request(
    pooling: str, files: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with OpenAIServer(Model(name="small")) as server:
        monkeypatch.setenv("APEX_OPENAI_BASE_URL", f"{server.url}/v1")
        assert _run("--model", "small", "--n=4", f"--pooling={pooling}", "--out", tmp_path) == 0
    assert {path.name for path in tmp_path.iterdir()} == {f"llm_pool_{name}.jsonl" for name in files}
    for path in tmp_path.iterdir():
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        requests = [row for row in rows if row["metric"] == "request"]
        assert [row["number"] for row in requests] == [0, 1, 2, 3]
        assert all(row["value"] > 0 and row["pool_acquire_ms"] >= 0 for row in requests)
        assert {"request p50", "acquire p95", "pool_conn_in_use, 8 at once"} <= {row["metric"] for row in rows}
        assert {row["contender"] for row in requests} == {"pool" if "on" in path.stem else "no pool"}
    assert "request p50" in capfd.readouterr().out


@pytest.mark.parametrize(
    "arguments", [["--pooling=maybe"], ["--pooling="], ["--model", " "], ["--n", "0"], ["--backend", "nonsense"]]
)
def test_wrong_flags_exit_2_and_say_why(
    arguments: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert _run(*arguments, "--out", tmp_path / "out") == 2
    out, err = capfd.readouterr()
    assert out == "" and err.startswith("error[E02") and err.count("\n") <= 2
