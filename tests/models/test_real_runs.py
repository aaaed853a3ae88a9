"""``apex run`` with real models: episodes end as episodes, within their budget, and nothing is left running.

The models have random weights and repair nothing: what is shown is that everything between them and an episode works.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from real_runs import BUDGET, Stage, check_run, command_of, left_running, lines, models_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

RECORDER = """
from apex_framework.hookspecs import ApexSpec, hookimpl


def recorded(spec):
    from apex_llm.replay import ReplayBackend
    from apex_metal.backend import llama_cpp_backend

    return ReplayBackend(spec, inner=llama_cpp_backend())


class Plugin(ApexSpec):
    @hookimpl
    def apex_llm_backends(self, add):
        add("recorded", recorded, summary="llama_cpp, recorded in the cassette recorded:PATH")


plugin = Plugin()
"""


@pytest.fixture
def llama(gguf: Path, tmp_path: Path) -> Stage:
    return Stage(tmp_path, {"APEX_GGUF_MODEL_PATH": str(gguf)})


def test_llama_cpp(llama: Stage) -> None:
    result = json.loads(llama.run(*command_of("llama_cpp", "run")))
    assert result["level"] == "L4" and result["arms"][0]["episodes"] == 2
    check_run(llama.folder / "run", level="L4")
    assert models_of(llama.folder / "run") == ["seeded"]


def test_llama_cpp_chosen_by_the_variable_of_the_specification_in_five_instances(gguf: Path, tmp_path: Path) -> None:
    chosen = {"APEX_LLM_BACKEND": "llama_cpp_metal", "APEX_NUM_LLM_INSTANCES": "5"}
    stage = Stage(tmp_path, {"APEX_GGUF_MODEL_PATH": str(gguf), **chosen})
    command = command_of("", "run", episodes=1)
    at = command.index("--backend")
    stage.run(*command[:at], *command[at + 2 :])
    check_run(tmp_path / "run", level="L4", episodes=1)
    plan = json.loads((tmp_path / "run" / "run.json").read_text())["plan"]
    assert plan["arms"][0]["backends"] == {"*": "llama_cpp_metal"}


def test_hf_on_the_processor(transformers_folder: Path, tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"APEX_HF_MODEL_ID": str(transformers_folder)})
    stage.run(*command_of("hf", "run"))
    check_run(tmp_path / "run", level="L4")


def test_openai_against_a_real_server(server: str, tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"APEX_OPENAI_BASE_URL": f"{server}/v1"})
    stage.run(*command_of("openai:tiny", "run"))
    check_run(tmp_path / "run", level="L4")


def test_one_role_with_a_model_and_the_others_without(llama: Stage) -> None:
    llama.run(*command_of("coder=llama_cpp,*=repair", "run"))
    check_run(llama.folder / "run", level="L4")
    paid = [c for c in lines(llama.folder / "run" / "calls.jsonl") if c["event"] == "CallSettled"]
    assert {c["determinism"] for c in paid if c["role"] == "coder"} == {"seeded"}
    assert {c["determinism"] for c in paid if c["role"] != "coder"} == {""}, "the repairer is no model"


def test_a_cassette_recorded_from_llama_cpp_replays_the_same_episodes_without_a_model(
    llama: Stage, tmp_path: Path
) -> None:
    information = tmp_path / "plugin" / "recorder-0.0.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: recorder\nVersion: 0.0.0\n")
    (information / "entry_points.txt").write_text("[apex_framework]\nrecorder = recorder\n")
    (tmp_path / "plugin" / "recorder.py").write_text(RECORDER)
    recording = Stage(tmp_path, {**llama.environ, "PYTHONPATH": str(tmp_path / "plugin")})
    recording.run(*command_of("recorded:cassette.jsonl", "live"))
    live = check_run(tmp_path / "live", level="L4")

    without = Stage(tmp_path, {"APEX_GGUF_MODEL_PATH": ""})
    for name, real_time in (("replayed", True), ("virtual", False)):
        without.run(*command_of("replay:cassette.jsonl", name, real_time=real_time))
        rows = check_run(tmp_path / name, level="L3")
        assert [(r["task_id"], r["tokens"], r["calls"], r["steps"], r["reason"]) for r in rows] == [
            (r["task_id"], r["tokens"], r["calls"], r["steps"], r["reason"]) for r in live
        ]


def test_an_interrupted_run_is_gone_on_with_and_finished_episodes_are_kept(llama: Stage) -> None:
    with llama.start(*command_of("llama_cpp", "run", episodes=3)) as process:
        assert process.stderr is not None
        while "1/3 episodes" not in (line := process.stderr.readline()):
            if not line:
                llama.finish(process)  # skips, or shows why
            assert line, "it ended before its first episode"
        process.send_signal(signal.SIGINT)
        llama.finish(process, 128 + signal.SIGINT)
    run = llama.folder / "run"
    before = lines(run / "episodes.jsonl")
    assert 1 <= len(before) < 3 and not (run / "DONE").exists()

    llama.run("resume", "run", "--workers", "1")
    rows = check_run(run, level="L4", episodes=3)
    assert [row for row in rows if row in before] == before
    assert sum(row["tokens"] for row in rows) <= 3 * BUDGET


def test_a_process_that_is_left_running_is_seen(tmp_path: Path) -> None:
    """Planted: the check itself."""
    stage = Stage(tmp_path, {})
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={"MARK": stage.mark}
    ) as process:
        assert len(left_running(stage.mark)) == 1
        process.communicate(b"\n")
    assert left_running(stage.mark) == []
