"""The files of examples/serving are what the programs that read them understand."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from apex_framework.config import ENVIRONMENT_PREFIX, load_settings
from apex_framework.testing.servers import OllamaServer
from apex_framework.workers.memory import UNLOAD, WARN

SERVING = Path(__file__).parents[2] / "examples" / "serving"
MODELFILES = sorted(SERVING.glob("Modelfile.*"))
ENVIRONMENTS = sorted((SERVING / "env").glob("*.env"))

INSTRUCTIONS = {"FROM", "PARAMETER", "TEMPLATE", "SYSTEM", "ADAPTER", "LICENSE", "MESSAGE", "REQUIRES"}
"""Of a Modelfile, by Ollama's documentation."""
PARAMETERS = {
    *(
        "num_ctx",
        "repeat_last_n",
        "repeat_penalty",
        "temperature",
        "seed",
        "stop",
        "num_predict",
        "top_k",
        "top_p",
        "min_p",
    ),
    *("num_gpu", "num_thread", "num_keep", "draft_num_predict"),
}
OLLAMA = {
    *("OLLAMA_HOST", "OLLAMA_MODELS", "OLLAMA_KEEP_ALIVE", "OLLAMA_LOAD_TIMEOUT", "OLLAMA_MAX_LOADED_MODELS"),
    *("OLLAMA_MAX_QUEUE", "OLLAMA_NUM_PARALLEL", "OLLAMA_ORIGINS", "OLLAMA_SCHED_SPREAD", "OLLAMA_FLASH_ATTENTION"),
    *("OLLAMA_KV_CACHE_TYPE", "OLLAMA_GPU_OVERHEAD", "OLLAMA_CONTEXT_LENGTH", "OLLAMA_DEBUG", "OLLAMA_NOPRUNE"),
}
"""Variables that an Ollama server or client reads, by what ``ollama serve --help`` lists; OLLAMA_GPU_LAYERS is none."""
OURS = {WARN, UNLOAD, "VLLM_BASE_URL", "VLLM_API_KEY", "OLLAMA_HOST", "OLLAMA_CONTEXT_LENGTH", "OLLAMA_API_KEY"}
"""Variables that APEX reads beside its settings."""

SERVICE = {
    *("image", "build", "deploy", "environment", "env_file", "ports", "volumes", "healthcheck", "depends_on"),
    *("entrypoint", "command", "restart"),
}
"""Keys of a service, by the Compose specification."""
BUILD, HEALTH = (
    {"context", "dockerfile", "dockerfile_inline"},
    {"test", "interval", "timeout", "retries", "start_period"},
)


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((SERVING / "docker-compose.yml").read_text(encoding="utf-8"))
    return found


def variables(path: Path) -> dict[str, str]:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Z_]+=\S+", line) for line in lines), "a shell and Compose read these alike"
    return dict(line.split("=", 1) for line in lines)


@pytest.mark.parametrize("path", MODELFILES, ids=lambda p: p.name)
def test_a_modelfile_has_only_instructions_and_parameters_that_exist(path: Path) -> None:
    lines = [
        line.split() for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")
    ]
    assert {line[0] for line in lines} <= INSTRUCTIONS
    assert lines[0][0] == "FROM" and re.fullmatch(r"[\w.-]+:[\w.-]+", lines[0][1])
    parameters = {line[1]: line[2] for line in lines if line[0] == "PARAMETER"}
    assert set(parameters) <= PARAMETERS
    assert float(parameters["temperature"]) == 0 and int(parameters["num_ctx"]) in (2048, 4096)


def test_modelfiles_are_those_of_the_stages() -> None:
    texts = {path.name.removeprefix("Modelfile."): path.read_text(encoding="utf-8") for path in MODELFILES}
    assert set(texts) == {"dev", "staging", "adapter"}
    assert "q4_K_M" in texts["dev"] and "num_ctx 2048" in texts["dev"]
    assert "q8_0" in texts["staging"] and "num_ctx 4096" in texts["staging"]
    assert "ADAPTER ./" in texts["adapter"]


@pytest.mark.parametrize("path", ENVIRONMENTS, ids=lambda p: p.stem)
def test_a_stage_names_only_variables_that_somebody_reads(path: Path) -> None:
    found = variables(path)
    settings = {f"{ENVIRONMENT_PREFIX}{name.upper()}" for name in type(load_settings(environ={}).settings).model_fields}
    assert set(found) - OURS - OLLAMA - settings == set()
    in_force = load_settings(environ=found, directory=path.parent).settings
    assert in_force.real_time and in_force.backend["*"].split(":")[0] in ("ollama", "vllm")


def test_a_stage_asks_for_the_context_that_its_modelfile_gives() -> None:
    assert [path.stem for path in ENVIRONMENTS] == ["dev", "prod", "staging"]
    for stage in ("dev", "staging"):
        found, text = variables(SERVING / "env" / f"{stage}.env"), (SERVING / f"Modelfile.{stage}").read_text()
        assert f"num_ctx {found['OLLAMA_CONTEXT_LENGTH']}\n" in text
        assert f"ollama create {found['APEX_BACKEND'].removeprefix('ollama:')} -f" in text
    prod = (SERVING / "env" / "prod.env").read_text()
    assert "--max-model-len 32768" in prod and "q4" not in prod.lower()


def test_compose_has_only_keys_that_exist_and_the_settings_of_staging() -> None:
    data = compose()
    assert set(data) == {"services", "volumes"}
    for name, service in data["services"].items():
        assert set(service) <= SERVICE, name
        assert set(service.get("build", ())) <= BUILD and set(service.get("healthcheck", ())) <= HEALTH
        assert set(service.get("environment", ())) <= OLLAMA, name
        for other, how in service.get("depends_on", {}).items():
            assert how["condition"] in ("service_healthy", "service_completed_successfully")
            assert other in data["services"]
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert source in data["volumes"] or (SERVING / source).is_dir()
    server = data["services"]["ollama"]
    wanted = {"OLLAMA_NUM_PARALLEL": "4", "OLLAMA_MAX_LOADED_MODELS": "2", "OLLAMA_KEEP_ALIVE": "5m"}
    assert wanted.items() <= server["environment"].items()
    device = server["deploy"]["resources"]["reservations"]["devices"][0]
    assert device == {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}
    stage = variables(SERVING / "env" / "staging.env")
    assert {k: v for k, v in server["environment"].items() if stage.get(k) != v} == {}
    model = data["services"]["model"]["entrypoint"]
    assert model[2] == stage["APEX_BACKEND"].removeprefix("ollama:") and (SERVING / Path(model[4]).name).is_file()
    assert (SERVING / data["services"]["apex"]["env_file"]).is_file()


def health_command() -> list[str]:
    test = compose()["services"]["ollama"]["healthcheck"]["test"]
    assert test[0] == "CMD" and "GET /api/version " in test[3]
    return [part.replace("$$", "$") for part in test[1:]]  # Compose would take a single one for a variable of its own


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_the_health_check_tells_a_server_from_none() -> None:
    with OllamaServer() as server:
        port = server.url.rpartition(":")[2]
        command = [part.replace("11434", port) for part in health_command()]
        assert subprocess.run(command, capture_output=True, timeout=20).returncode == 0
        strange = [part.replace("/api/version", "/api/health") for part in command]
        assert subprocess.run(strange, capture_output=True, timeout=20).returncode != 0, "/api/health is no route"
    assert subprocess.run(command, capture_output=True, timeout=20).returncode != 0


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")
def test_make_refuses_a_stage_that_is_none() -> None:
    done = subprocess.run(["make", "env=no"], cwd=SERVING.parents[1], capture_output=True, text=True, timeout=20)
    assert done.returncode == 2 and "env=dev, env=staging or env=prod" in done.stderr
