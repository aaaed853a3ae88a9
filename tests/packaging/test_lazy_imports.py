"""Loading everything imports nothing heavy, and the program starts with little more than its command line library."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys

import pytest

HEAVY = [
    "numpy",
    "scipy",
    "pandas",
    "sklearn",
    "pydantic",
    "yaml",
    "rich",
    "click",
    "torch",
    "transformers",
    "accelerate",
    "vllm",
    "llama_cpp",
    "openai",
    "anthropic",
    "litellm",
    "aiohttp",
    "ollama",
    "httpx",
    "requests",
    "grpc",
    "mcp",
    "a2a",
    "faiss",
    "lmdb",
    "zstandard",
    "huggingface_hub",
    "ray",
    "docker",
    "prometheus_client",
    "opentelemetry",
    "pettingzoo",
    "gymnasium",
    "matplotlib",
]

SHOW = "; import sys, json; print(json.dumps(sorted({m.partition('.')[0] for m in sys.modules})))"


def modules_after(code: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", code + SHOW], capture_output=True, text=True, check=True, timeout=60)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_the_package_imports_nothing() -> None:
    before = modules_after("pass")
    new = modules_after("import apex_framework") - before
    assert new - set(sys.stdlib_module_names) == {"apex_framework"}


def test_after_loading_every_plugin_nothing_heavy_is_imported() -> None:
    code = "from apex_framework import load_plugins; p = load_plugins(); assert p.report.plugins"
    assert modules_after(code) & set(HEAVY) == set()


@pytest.mark.parametrize("arguments", [["--version"], ["plugins"], ["--help"]])
def test_light_commands_stay_light(arguments: list[str]) -> None:
    code = f"from apex_framework.cli.boundary import run; assert run({arguments!r}) == 0"
    assert modules_after(code) & (set(HEAVY) - {"click"}) == set()


def test_every_plugin_of_the_distribution_loads() -> None:
    code = (
        "from apex_framework import load_plugins; import json; "
        "print(json.dumps([[p.name, p.status, p.error] for p in load_plugins(safe_mode=True).report.plugins "
        "if p.distribution == 'apex-framework' and p.status != 'ok' and not p.status.startswith('needs')]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout) == []


def modules_loaded(program: str) -> int:
    code = f"import atexit, sys; atexit.register(lambda: print(len(sys.modules), file=sys.stderr))\n{program}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return int(done.stderr.splitlines()[-1])


@pytest.mark.parametrize(("argument", "limit"), [("--version", 1.5), ("--help", 3.0)])
def test_the_program_imports_little_more_than_its_command_line_library(argument: str, limit: float) -> None:
    """What it takes in time is measured by ``apex bench startup``."""
    entry = next(p for p in importlib.metadata.entry_points(group="console_scripts") if p.name == "apex")
    ours = modules_loaded(f"sys.argv = ['apex', {argument!r}]; from {entry.module} import {entry.attr}; {entry.attr}()")
    click = modules_loaded("import click")
    assert ours <= limit * click, f"{ours} modules against {click} of import click"
