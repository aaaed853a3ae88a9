"""Attacks on settings, on the run folder, on the terminal, and on whatever is read back (A62 to A64, A68, A73)."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from apex_framework.config import load_settings
from apex_framework.errors import ConfigError

ROOT = Path(__file__).parents[2]
LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)

YAML = {
    "object": "budget: !!python/object/apply:os.system ['touch fired']\n",
    "module": "budget: !!python/name:os.system\n",
    "billion laughs": LAUGHS,
    "billion laughs as a value": f"{LAUGHS}budget: *i\n",
    "null": "budget: null\n",
    "null for a run": "run_budget: null\n",
    "no number": "budget: .nan\n",
    "endless": "budget: .inf\n",
    "too large": "budget: 1e309\n",
    "negative": "budget: -5\n",
    "seconds that are no number": "tool_seconds: .nan\n",
    "deep": "[" * 20_000,
    "deep in full": "budget: " + "[" * 20_000 + "]" * 20_000,
    "NUL": "budget: \x00\n",
    "escape": 'budget: "\\e[2J"\n',
}
TOML = {
    "no number": "budget = nan\n",
    "endless": "tool_seconds = inf\n",
    "negative": "budget = -5\n",
    "deep": "budget = " + "[" * 20_000 + "]" * 20_000 + "\n",
    "the same twice": "budget = 1\nbudget = 2\n",
    "unknown": "allow_everything = true\n",
}


@pytest.mark.parametrize("name", YAML)
def test_a62_hostile_yaml_is_one_line_and_runs_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.yaml").write_text(YAML[name], encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_settings(config=tmp_path / "x.yaml", environ={})
    assert "\n" not in caught.value.cause and len(caught.value.cause) < 1000
    assert not (tmp_path / "fired").exists()


@pytest.mark.parametrize("name", TOML)
def test_a62_hostile_toml_is_one_line(name: str, tmp_path: Path) -> None:
    (tmp_path / "apex.toml").write_text(TOML[name], encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_settings(directory=tmp_path, environ={})
    assert len(caught.value.cause) < 1000


def apex(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "apex_framework", *arguments]
    environ = {**os.environ, **environment}
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=60, check=False)


def test_a63_no_run_is_written_over_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "mine").write_text("mine", encoding="utf-8")
    (tmp_path / "link").symlink_to("foreign")
    (tmp_path / "here").mkdir()
    run = ("run", "--episodes", "1", "--controller", "static", "--no-baselines", "--out")
    for out in ("file", "link", "foreign", "here/../foreign"):
        done = apex(tmp_path, *run, out, XDG_CACHE_HOME=str(tmp_path / "cache"))  # with no tasks made before
        assert (done.returncode, done.stdout) == (3, ""), done.stderr
        assert done.stderr.startswith("error[E0302]") and "Traceback" not in done.stderr
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")) == [
        "file",
        "foreign",
        "foreign/mine",
        "here",
        "link",
    ]


@pytest.mark.parametrize(
    "arguments",
    [("run", "--suite"), ("run", "--budget"), ("run", "--team"), ("run", "--set"), ("explain",), ("report",), ()],
)
def test_a64_arguments_do_not_reach_the_terminal_as_they_are(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = apex(tmp_path, *arguments, "\x1b[2Jx\x1b]52;c;AAAA\x07" + "y" * 50_000)
    assert done.returncode in (2, 3)
    assert "\x1b" not in done.stdout + done.stderr and "\x07" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


LOADERS = {("pickle", "load"), ("pickle", "loads"), ("marshal", "load"), ("marshal", "loads"), ("yaml", "load")}
LOADERS |= {("yaml", "unsafe_load"), ("torch", "load"), ("shelve", "open"), ("dill", "load"), ("joblib", "load")}
FROM_OURSELVES = {
    "plugins/apex_workspaces/zygote.py",
    "apex_framework/testing/sandbox.py",
    "apex_framework/episode/worker.py",
}
"""They read the sandbox that their own host process sends them, before anything else, or what they have just packed."""


def unpickling(source: str) -> list[tuple[str, str]]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
        ):
            if (node.func.value.id, node.func.attr) in LOADERS:
                found.append((node.func.value.id, node.func.attr))
            if any(k.arg == "allow_pickle" and getattr(k.value, "value", None) is True for k in node.keywords):
                found.append((node.func.value.id, node.func.attr))
    return found


def test_a73_nothing_that_is_read_back_can_run_code() -> None:
    files = [*(ROOT / "apex_framework").rglob("*.py"), *(ROOT / "plugins").rglob("*.py")]
    where = {str(f.relative_to(ROOT)) for f in files if unpickling(f.read_text(encoding="utf-8"))}
    assert where <= FROM_OURSELVES


def test_a73_the_search_finds_what_it_looks_for() -> None:
    assert unpickling("import pickle\npickle.loads(x)") and unpickling("numpy.load(f, allow_pickle=True)")
    assert not unpickling("json.loads(x); yaml.safe_load(y); numpy.load(f)")
