"""SWE-bench in containers: the official package judges, against a stand-in for the engine. No real engine is asked."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from stand_in_engine import Engine, engine
from swebench_world import FILE, World, make_world

from apex_framework.cli.boundary import run
from apex_framework.cli.suites import options_of
from apex_framework.errors import EnvironmentProblem, UsageError
from apex_framework.interfaces import Verdict
from apex_framework.plugins import load_plugins
from apex_suites.swebench.rows import Instance
from apex_suites.swebench.suite import SweBenchSuite

pytest.importorskip("swebench", reason="the extra swebench is not installed")

SUITE, IMAGE = "swebench_lite/dev", "registry.example/eval.demo__tiny-1:latest"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Its rows name an image."""
    made = make_world(tmp_path, runner="pytest")
    base, names = made.row["base_commit"], f"{FILE}"
    script = [
        "#!/bin/bash",
        "set -uxo pipefail",
        f"export PATH={Path(sys.executable).parent}:$PATH",
        "export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1",
        "cd /testbed",
        "git status",
        f"git checkout {base} {names}",
        f"git apply -v - <<'EOF_1'\n{made.row['test_patch']}EOF_1",
        ": '>>>>> Start Test Output'",
        f"python -m pytest -p no:cacheprovider -rA {names}",
        ": '>>>>> End Test Output'",
        f"git checkout {base} {names}",
    ]
    row = {
        **made.row,
        "image": IMAGE,
        "eval_script": "\n".join(script) + "\n",
        "log_parser": "parse_log_pytest",
        "eval_type": "pass_and_fail",
    }
    made.write(row)
    return replace(made, row=row)


@pytest.fixture
def answering(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    home = tmp_path / "engine"
    with ExitStack() as stack:
        made = stack.enter_context(engine(home))
        testbed = made.image(IMAGE) / "testbed"
        git = ["git", "-c", "advice.detachedHead=false"]
        subprocess.run([*git, "clone", "--quiet", world.repos / "demo+tiny", testbed], check=True)
        subprocess.run([*git, "-C", testbed, "checkout", "--quiet", world.row["base_commit"]], check=True)
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        yield made
    assert not list((home / "containers").iterdir())
    assert not list(tmp_path.glob("apex-container-*"))


@pytest.fixture
def suite(world: World, tmp_path: Path) -> SweBenchSuite:
    def workspaces(preferred: str) -> Any:
        assert preferred == "swebench"
        return load_plugins().catalog.make("workspace", preferred)

    return SweBenchSuite(workspaces=workspaces, cache_dir=tmp_path / "checks", data=world.data, execution="containers")


def judged(suite: SweBenchSuite, patch: str) -> Verdict:
    (task,) = suite.candidates("dev")
    return suite.grade_patch(task, patch)


@pytest.mark.slow
def test_the_official_package_judges(suite: SweBenchSuite, world: World, answering: Engine) -> None:
    (task,) = suite.candidates("dev")
    checked = suite.check(task)
    assert (checked.behaves, checked.why, checked.infrastructure_error) == (True, "", "")
    found = {name: judged(suite, world.patches[name]) for name in ("gold", "breaks another", "does not apply")}
    assert [name for name, verdict in found.items() if verdict.success] == ["gold"]
    assert {verdict.evaluator for verdict in found.values()} == {"swebench/container"}
    assert not any(verdict.infrastructure_error for verdict in found.values())
    assert found["breaks another"].detail == "FAIL_TO_PASS 1/1, PASS_TO_PASS 0/1"
    assert not found["breaks another"].visible_passed
    assert "the patch does not apply" in found["does not apply"].detail
    assert "/bin/bash /eval.sh" in answering.told


def test_agents_run_the_visible_tests_in_the_image(suite: SweBenchSuite, answering: Engine) -> None:
    (task,) = suite.candidates("dev")
    assert (task.repo, task.base_commit, task.run["image"]) == ("", "", IMAGE)
    assert "EOF" not in task.run["command"][2]
    provider = suite.workspaces()
    try:
        workspace = provider.create(task)
        report = workspace.run_tests()
        assert [(outcome.id, outcome.status) for outcome in report.outcomes] == [(FILE, "passed")]
        (workspace.root / "pkg.py").write_text("def half(n:\n")
        assert workspace.run_tests().passed == 0
        workspace.dispose()
    finally:
        provider.close()


DJANGO = "./tests/runtests.py --verbosity 2 --parallel 1 admin.tests one"


@pytest.mark.parametrize(
    ("command", "run", "tests"),
    [
        ("pytest -rA tests/one.py tests/admin/tests.py", 'pytest -rA "$1"', ["tests/admin/tests.py", "tests/one.py"]),
        (DJANGO, './tests/runtests.py --verbosity 2 --parallel 1 "$1"', ["admin.tests", "one"]),
        ("make test", "make test", ["all"]),
    ],
)
def test_a_script_says_how_one_file_is_tested(
    world: World, suite: SweBenchSuite, command: str, run: str, tests: list[str]
) -> None:
    change = "--- a/{0}\n+++ b/{0}\n@@ -1 +1 @@\n-x\n+y\n"
    patch = "".join(change.format(path) for path in ("tests/admin/tests.py", "tests/one.py"))
    script = "#!/bin/bash\ncd /testbed\ngit apply -\n: '>>>>> Start Test Output'\n{}\n: '>>>>> End Test Output'\n"
    world.write({**world.row, "test_patch": patch, "eval_script": script.format(command)})
    (task,) = suite.candidates("dev")
    assert (task.run["command"][2], sorted(task.run["tests"])) == (f"cd /testbed\n{run}", tests)


def test_what_keeps_the_engine_from_judging_is_no_verdict(
    suite: SweBenchSuite, world: World, answering: Engine
) -> None:
    world.write({**world.row, "image": "registry.example/none:latest"})
    found = judged(suite, "")
    assert "not found" in found.infrastructure_error
    (answering.home / "stopped").touch()
    (task,) = suite.candidates("dev")
    with pytest.raises(EnvironmentProblem, match="no Docker engine answers: Cannot connect"):
        suite.check(task, anew=True)


def test_without_docker_one_line_tells(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    flags = ["--data", str(world.data), "--option", "execution=containers", "--allow-weaker-sandbox"]
    assert run(["suite", "check", SUITE, *flags]) == 3
    assert "there is no program 'docker' here" in capsys.readouterr().err


def test_a_row_without_an_image_is_named(world: World, suite: SweBenchSuite) -> None:
    world.write({name: value for name, value in world.row.items() if name != "eval_script"})
    with pytest.raises(UsageError, match="demo__tiny-1: its row has no 'eval_script'"):
        suite.candidates("dev")
    for wrong in ("execution", "=containers"):
        with pytest.raises(UsageError, match=f"--option {wrong}: no name and value"):
            options_of({"option": ("a=b", wrong)})
    assert options_of({"data": None, "option": ("a=b=c", "d=")}) == {"a": "b=c", "d": ""}
    with pytest.raises(UsageError, match="unknown execution 'podman'"):
        SweBenchSuite(data=world.data, execution="podman")


def test_there_is_nothing_to_compare(suite: SweBenchSuite, tmp_path: Path) -> None:
    (task,) = suite.candidates("dev")
    with pytest.raises(UsageError, match="judges alone"):
        next(iter(suite.compare(task, tmp_path)))


def test_what_only_a_container_needs_changes_no_row_of_others(world: World) -> None:
    plain = {name: value for name, value in world.row.items() if name not in ("image", "eval_script")}
    with_image = SweBenchSuite(data=world.data).instances
    world.write(plain)
    without: tuple[Instance, ...] = SweBenchSuite(data=world.data).instances
    assert with_image[0].to_row() == without[0].to_row()


@pytest.mark.slow
def test_an_episode_is_worked_on_and_judged_in_containers(
    world: World, answering: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("APEX_CACHE", str(tmp_path / "cache"))
    flags = ["--data", str(world.data)]
    assert (
        run(["suite", "check", SUITE, "--option", "execution=containers", "--allow-weaker-sandbox", *flags, "--json"])
        == 0
    )
    assert json.loads(capsys.readouterr().out)["behave"] == 1
    ways = [
        "--set",
        "suite_options=execution=containers",
        "--set",
        "sandbox=plain",
        "--arm",
        "single",
        "--no-baselines",
    ]
    assert run(["run", "--suite", SUITE, *flags, *ways, "--episodes", "1", "--out", str(tmp_path / "run")]) == 0
    found = [json.loads(line) for line in (tmp_path / "run" / "episodes.jsonl").read_text().splitlines()]
    assert {episode["evaluator"] for episode in found} == {"swebench/container"}
    assert {episode["arm"]: episode["success"] for episode in found}["single"]


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "seconds"), [(signal.SIGINT, 1000), (signal.SIGKILL, 3)])
def test_whatever_ends_a_judgement_its_container_goes(
    world: World, answering: Engine, tmp_path: Path, sent: signal.Signals, seconds: int
) -> None:
    script = world.row["eval_script"].replace("python -m pytest", f"sleep {seconds}; true")
    world.write({**world.row, "eval_script": script})
    program = (
        "import sys\nfrom apex_suites.swebench.suite import SweBenchSuite\n"
        "suite = SweBenchSuite(cache_dir=sys.argv[2], data=sys.argv[1], execution='containers')\n"
        "suite.check(suite.candidates('dev')[0])\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, world.data, tmp_path / "checks"],
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    wait_until(lambda: "/bin/bash /eval.sh" in answering.told)
    child.send_signal(sent)
    told = child.communicate(timeout=90)[1]
    assert sent != signal.SIGINT or b"KeyboardInterrupt" in told
    wait_until(lambda: not list((answering.home / "containers").iterdir()))
    for left in tmp_path.glob("apex-container-*"):
        assert sent == signal.SIGKILL
        shutil.rmtree(left)


def wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert done()
