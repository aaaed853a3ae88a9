"""A broken plugin is named, reported once, skipped with all it registered, and harms nobody."""

from __future__ import annotations

import logging
import signal
import time
from typing import Any

import pytest

from apex_framework.errors import NameTakenError, PluginError, UnknownNameError
from apex_framework.events import EpisodeStarted, RunFinished, TopologyChanged
from apex_framework.hookspecs import ApexSpec, hookimpl
from apex_framework.plugins import PluginRecord, Plugins, load_plugins

TYPO = """
    @hookimpl
    def apex_topologys(self, add):
        pass
"""

BROKEN = {
    "raises at import": ("raise RuntimeError('no GPU')\n", "import: RuntimeError: no GPU"),
    "exits at import": ("raise SystemExit(3)\n", "import: SystemExit: 3"),
    "is no Python": ("def\n", "import: SyntaxError"),
    "lacks a module": ("import no_such_module_anywhere\n", "No module named 'no_such_module_anywhere'"),
    "has no plugin": ("x = 1\n", "has no attribute 'plugin'"),
    "is no ApexSpec": ("plugin = object()\n", "'plugin' is of type object, not an instance of a subclass of ApexSpec"),
    "has a typo": (TYPO, "unknown hook 'apex_topologys', did you mean 'apex_topologies'?"),
    "forgot the mark": ("\n    def apex_topologies(self, add):\n        pass\n", "not marked with @hookimpl"),
    "names another hook": (
        "\n    @hookimpl(specname='apex_nothing')\n    def made(self, add):\n        pass\n",
        "apex_nothing",
    ),
    "wrong argument": ("\n    @hookimpl\n    def apex_topologies(self, register):\n        pass\n", "register"),
    "raises in a hook": (
        "\n    @hookimpl\n    def apex_lanes(self, add):\n        1 / 0\n",
        "apex_lanes: ZeroDivisionError",
    ),
    "is asynchronous": ("\n    @hookimpl\n    async def apex_lanes(self, add):\n        pass\n", "is asynchronous"),
    "returns things": ("\n    @hookimpl\n    def apex_lanes(self, add):\n        return [1]\n", "returned a list"),
    "wraps a hook": (
        "\n    @hookimpl(wrapper=True)\n    def apex_lanes(self, add):\n        return (yield)\n",
        "hook wrapper",
    ),
    "no factory": ("\n    @hookimpl\n    def apex_lanes(self, add):\n        add('x', 3)\n", "not a callable"),
    "bad name": (
        "\n    @hookimpl\n    def apex_lanes(self, add):\n        add('a:b', int)\n",
        "impossible lane name 'a:b'",
    ),
    "same name twice": (
        "\n    @hookimpl\n    def apex_lanes(self, add):\n        add('a', int)\n        add('a', int)\n",
        "lane 'a' is registered by",
    ),
    "hangs": ("\n    @hookimpl\n    def apex_lanes(self, add):\n        while True: pass\n", "apex_lanes: hangs"),
    "hangs at import": ("import time\ntime.sleep(60)\n", "import: hangs"),
}

FAST = {"APEX_PLUGIN_TIMEOUT_S": "0.2"}


def record(plugins: Plugins, name: str) -> PluginRecord:
    return next(p for p in plugins.report.plugins if p.name == name)


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_plugin_is_named_and_skipped(strangers: Any, case: str) -> None:
    body, cause = BROKEN[case]
    strangers.install("bad", body)
    strangers.topology("good", "oval")
    plugins = load_plugins(environ=FAST)
    bad = record(plugins, "bad")
    assert (bad.distribution, bad.version, bad.status, bad.provides) == ("stranger-bad", "1.0", "BROKEN", ())
    assert cause in bad.error
    assert record(plugins, "good").status == "ok"
    assert "oval" in plugins.catalog.names("topology")


@pytest.mark.parametrize("case", BROKEN)
def test_strict_loading_raises_for_a_broken_plugin(strangers: Any, case: str) -> None:
    strangers.install("bad", BROKEN[case][0])
    with pytest.raises(PluginError):
        load_plugins(environ=FAST, strict=True, only=["bad"])


def test_a_plugin_that_breaks_late_leaves_nothing_behind(strangers: Any) -> None:
    body = """
    @hookimpl
    def apex_topologies(self, add):
        add("half", int)
    @hookimpl
    def apex_stores(self, add):
        raise OSError("disk")
    @hookimpl
    def apex_on_run_finished(self, event):
        raise AssertionError("never told")
"""
    strangers.install("half", body)
    plugins = load_plugins(environ={})
    assert record(plugins, "half").error == "apex_stores: OSError: disk"
    assert "half" not in plugins.catalog.names("topology")
    plugins.notify(RunFinished("r", "runs/r", 1))


def test_a_name_taken_twice_names_both_owners_and_the_first_keeps_it(strangers: Any) -> None:
    strangers.topology("one", "oval")
    strangers.topology("two", "oval")
    plugins = load_plugins(environ={})
    assert record(plugins, "one").status == "ok"
    assert record(plugins, "two").error == "names: topology 'oval' is registered by one and by two"
    with pytest.raises(NameTakenError):
        load_plugins(environ={}, strict=True, only=["one", "two"])


def test_a_stranger_cannot_take_a_name_of_apex(strangers: Any) -> None:
    strangers.topology("aaa", "star", distribution="aaa-first")
    assert record(load_plugins(environ={}), "aaa").status == "BROKEN"


def test_two_plugins_of_one_name_are_an_error_of_the_second(strangers: Any) -> None:
    strangers.topology("same", "oval", distribution="dist-a")
    strangers.topology("same", "round", distribution="dist-b")
    statuses = [(p.distribution, p.status) for p in load_plugins(environ={}).report.plugins if p.name == "same"]
    assert statuses == [("dist-a", "ok"), ("dist-b", "BROKEN")]


def test_blocking_by_name_or_distribution(strangers: Any) -> None:
    strangers.topology("good", "oval")
    for name in ("good", "stranger-good"):
        plugins = load_plugins(block=[name], environ={})
        assert record(plugins, "good").status == "blocked"
        assert "oval" not in plugins.catalog.names("topology")


def test_blocking_an_unknown_plugin_is_an_error_with_a_suggestion(strangers: Any) -> None:
    strangers.topology("good", "oval")
    with pytest.raises(UnknownNameError) as caught:
        load_plugins(block=["goood"], environ={})
    assert "did you mean 'good'?" in caught.value.remedy


def test_safe_mode_loads_only_what_comes_with_apex(strangers: Any) -> None:
    strangers.topology("good", "oval")
    plugins = load_plugins(safe_mode=True, environ={})
    assert record(plugins, "good").status == "blocked"
    assert {p.distribution for p in plugins.report.plugins if p.status != "blocked"} == {"apex-framework"}


@pytest.mark.parametrize(("listed", "loaded"), [("", set()), ("good", {"good"}), ("good, other", {"good", "other"})])
def test_the_variable_lists_the_strangers_that_may_be_loaded(strangers: Any, listed: str, loaded: set[str]) -> None:
    strangers.topology("good", "oval")
    strangers.topology("other", "round")
    plugins = load_plugins(environ={"APEX_PLUGINS": listed})
    assert {p.name for p in plugins.report.plugins if p.status == "ok" and p.distribution != "apex-framework"} == loaded
    assert record(plugins, "topologies").status == "ok"


def test_only_is_exact(strangers: Any) -> None:
    plugins = load_plugins(only=["topologies"], environ={})
    assert {p.name for p in plugins.report.plugins if p.status == "ok"} == {"topologies"}


def test_a_plugin_needing_an_extra_says_so(strangers: Any) -> None:
    metadata = 'Requires-Dist: no-such-package-anywhere>=1; extra == "gpu"\nProvides-Extra: gpu\n'
    body = """
    @hookimpl
    def apex_stores(self, add):
        add("fast", lambda: __import__("no_such_module_anywhere"), requires="gpu")
"""
    strangers.install("gpu", body, metadata=metadata)
    plugins = load_plugins(environ={})
    assert record(plugins, "gpu").status == "needs [gpu]"
    assert plugins.catalog.entry("store", "fast").status == "needs [gpu]"


def test_the_time_limit_leaves_other_timers_alone() -> None:
    rung: list[int] = []
    old_handler = signal.getsignal(signal.SIGALRM)
    old = signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        load_plugins(only=["topologies"], environ={})
        deadline = time.monotonic() + 60
        while not rung and time.monotonic() < deadline:
            time.sleep(0.01)
        assert rung == [1]
    finally:
        signal.signal(signal.SIGALRM, old_handler)
        signal.setitimer(signal.ITIMER_REAL, *old)


class Watching(ApexSpec):
    """Observes two hooks."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    @hookimpl
    def apex_on_episode_started(self, event: EpisodeStarted) -> None:
        self.seen.append(event)

    @hookimpl
    def apex_on_run_finished(self, event: RunFinished) -> None:
        self.seen.append(event)


class Failing(ApexSpec):
    """An observer that fails."""

    @hookimpl
    def apex_on_episode_started(self, event: EpisodeStarted) -> None:
        raise KeyError(event.arm)


def test_a_failing_observer_is_logged_once_and_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    watching = Watching()
    plugins = load_plugins(only=["failing", "watching"], environ={}, plugins=[Failing(), watching])
    started = EpisodeStarted("e1", "arm", "task", 0)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            plugins.notify(started)
    assert watching.seen == [started] * 3
    assert [r.getMessage() for r in caplog.records] == [
        "observer apex_on_episode_started of plugin failing failed: KeyError('arm')"
    ]


def test_events_without_an_observing_hook_are_nobodys_business() -> None:
    load_plugins(only=[], environ={}).notify(TopologyChanged("e1", "star", "flat", 1))


def test_two_loads_share_nothing() -> None:
    first, second = Watching(), Watching()
    loaded = load_plugins(only=["watching"], environ={}, plugins=[first])
    load_plugins(only=["watching"], environ={}, plugins=[second])
    loaded.notify(RunFinished("r", "runs/r", 1))
    assert (len(first.seen), len(second.seen)) == (1, 0)
