"""What is refused, sent and compared, before any cluster is asked."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from apex_ray.crew import variables
from apex_ray.executor import RayExecutor, _shared
from apex_ray.facts import difference, seen, versions
from apex_ray.node import Died, Node, Unseen
from apex_ray.options import Options

from apex_framework import ConfigError, EpisodeJob, Executor, MissingExtraError, load_plugins
from apex_framework.errors import ExecutorError

Jobs = Callable[..., list[EpisodeJob]]


def test_options_behind_the_name() -> None:
    assert Options.read("") == Options()
    read = Options.read("address=head:6379, env=A_KEY+B,cpus=0.5,limit_s=9,connect_s=2,start_s=3")
    assert read == Options("head:6379", ("A_KEY", "B"), 0.5, 9, 2, 3)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("adress=x:1", "adress"),
        ("address", "no value"),
        ("address=head", "HOST:PORT"),
        ("address=head:99999", "HOST:PORT"),
        ("address=ray://head:10001", "client"),
        ("limit_s=0", "positive"),
        ("limit_s=nan", "positive"),
        ("env=A B", "no name"),
    ],
)
def test_an_impossible_option_is_refused(spec: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        RayExecutor(spec)


def test_apex_finds_it_by_name_and_it_refuses_what_it_cannot_do(jobs: Jobs) -> None:
    plugins = load_plugins(strict=True)
    executor = plugins.catalog.make("executor", "ray:address=local")
    assert isinstance(executor, Executor)
    assert plugins.catalog.entry("executor", "ray").owner.distribution == "apex-ray"
    with pytest.raises(ConfigError, match="at least one worker"):
        executor.run(jobs("a"), variables, workers=0)
    with pytest.raises(ConfigError, match="cannot be imported"):
        executor.run(jobs("a"), lambda job: None, workers=1)


def test_without_ray_the_pip_line_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ray", "apex_ray.executor"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError) as caught:
        load_plugins().catalog.make("executor", "ray")
    assert caught.value.remedy == "pip install 'apex-ray[ray]'"


def test_a_worker_that_leaves_by_itself_is_told_with_its_own_status(episodes: ModuleType, jobs: Jobs) -> None:
    node = Node()
    path = [str(Path(episodes.__file__).parent), *sys.path]
    node.hello({"work": "ray_episodes:leaving", "folder": os.sep, "path": path, "variables": {}})
    assert node.do(jobs("a")[0], {}) == Died(21)


def test_secrets_are_sent_only_by_name() -> None:
    here = {"APEX_PLUGINS": "ray", "APEX_API_KEY": "s1", "HF_TOKEN": "s2", "HOME": "/root"}
    assert variables(here, ()) == {"APEX_PLUGINS": "ray"}
    assert variables(here, ("HF_TOKEN", "APEX_API_KEY")) == {
        "APEX_PLUGINS": "ray",
        "APEX_API_KEY": "s1",
        "HF_TOKEN": "s2",
    }
    with pytest.raises(ExecutorError, match="ABSENT"):
        variables(here, ("ABSENT",))


def test_any_other_version_is_a_difference() -> None:
    ours = versions()
    assert {"Python", "apex-framework", "apex-ray"} <= ours.keys()
    assert difference(ours, dict(ours)) == ""
    assert "has Python 3.10.1" in difference(ours, {**ours, "Python": "3.10.1"})
    assert "has apex-framework (none)" in difference(ours, {k: v for k, v in ours.items() if k != "apex-framework"})
    assert "has apex-other 1, this machine (none)" in difference(ours, {**ours, "apex-other": "1"})


def test_a_ceiling_is_kept_only_in_one_and_the_same_file_of_one_machine(jobs: Jobs, tmp_path: Path) -> None:
    store = tmp_path / "budget.sqlite3"
    store.touch()
    here = seen(str(store))
    assert here is not None
    (job,) = jobs("a", budgets={"run": 1_000, "run_store": str(store)})
    assert _shared(job) == {str(store): here}
    assert _shared(jobs("a", budgets={"episode": 1_000})[0]) == {}
    for elsewhere in (("another machine", *here[1:]), (here[0], here[1], here[2] + 1), None):
        assert isinstance(Node().do(job, {str(store): elsewhere}), Unseen)
    with pytest.raises(ExecutorError, match="day has no file"):
        _shared(jobs("a", budgets={"day": 1_000})[0])
