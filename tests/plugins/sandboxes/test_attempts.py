"""Every attempt to get out is stopped by a strong sandbox, and each rule that one forgets lets its attempt through."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from apex_framework.interfaces import Confinement, Level, Task
from apex_framework.testing import check_sandbox
from apex_framework.testing.probes import WHOLE_TREE, how_many, run_probes
from apex_sandboxes.bubblewrap import BwrapSandbox
from apex_sandboxes.landlocked import LandlockSandbox
from apex_workspaces.checkout import CheckoutWorkspaces
from apex_workspaces.plain import PlainSandbox


def out(sandbox: Any, *, entered: bool = False) -> set[str]:
    attempts = run_probes(sandbox, entered=entered)
    assert attempts, "it refused to confine"
    return {attempt.name for attempt in attempts if attempt.out}


def test_a_strong_sandbox_stops_every_attempt_and_conforms(strong: LandlockSandbox) -> None:
    status = strong.probe()
    assert len(status.held) == how_many() >= 40
    assert any("whole tree" in lack for lack in status.lacks)
    check_sandbox(LandlockSandbox)


@pytest.mark.slow
def test_so_it_does_without_namespaces(strong: LandlockSandbox) -> None:
    sandbox = LandlockSandbox(namespaces=False)
    assert sandbox.probe().level is Level.LANDLOCK
    assert len(sandbox.probe().held) == how_many()
    check_sandbox(lambda: LandlockSandbox(namespaces=False))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_bubblewrap_does(strong: LandlockSandbox) -> None:
    status = BwrapSandbox().probe()
    if status.level is Level.NONE:
        pytest.skip("bubblewrap may not make namespaces here")
    assert len(status.held) == how_many()
    check_sandbox(BwrapSandbox)


def test_resource_limits_alone_let_most_of_them_out() -> None:
    found = out(PlainSandbox(), entered=True)
    assert {"read_canary", "write_outside", "tcp_to_host", "signal_to_outside"} <= found
    assert not found & {"much_memory", "large_file", "core_dump", "endless_work"}


class Forgetful(LandlockSandbox):
    """Leaves something out of its plans."""

    def __init__(self, **forgotten: Any) -> None:
        super().__init__()
        self.forgotten = forgotten

    def _plan(self, limits: Confinement) -> dict[str, Any]:
        plan = super()._plan(limits)
        for name, value in self.forgotten.items():
            plan[name] = [*plan[name], *value] if isinstance(value, list) else value
        if "limits" in self.forgotten:
            plan["limits"] = {**super()._plan(limits)["limits"], **self.forgotten["limits"]}
        return plan


FORGOTTEN: dict[str, tuple[dict[str, Any], set[str]]] = {
    "everything may be read": ({"readable": ["/"]}, {"read_canary", "list_folder_outside", "read_through_symlink"}),
    "everything may be changed": (
        {"writable": ["/var/tmp"]},
        {"write_outside", "delete_outside", "change_mode_outside"},
    ),
    "shared folder for scratch": ({"writable": ["/tmp"]}, {"write_to_shared_tmp"}),
    "no filter of system calls": ({"seccomp": False}, {"bpf_program", "user_fault", "kernel_keys", "io_uring"}),
    "no Landlock": ({"landlock": False}, {"read_canary", "read_through_proc_root"}),
    "memory without a limit": ({"limits": {"memory": 1 << 40}}, {"much_memory"}),
    "large files": ({"limits": {"file_size": 1 << 40}}, {"large_file"}),
    "many files": ({"limits": {"open_files": 4096}}, {"many_open_files"}),
}


@pytest.mark.parametrize("rule", FORGOTTEN)
def test_a_forgotten_rule_is_caught(strong: LandlockSandbox, rule: str) -> None:
    forgotten, expected = FORGOTTEN[rule]
    assert expected <= out(Forgetful(**forgotten), entered=True)


class Unwatched(LandlockSandbox):
    """Leaves its trees alone."""

    def wrap(self, argv: Any, limits: Confinement) -> list[str]:
        from apex_sandboxes.plan import launcher

        return [*launcher({**self._plan(limits), "supervised": False}), *argv]


class Open(LandlockSandbox):
    """Leaves the network open."""

    def _plan(self, limits: Confinement) -> dict[str, Any]:
        return {**super()._plan(limits), "network": True}


@pytest.mark.slow
def test_forgotten_rules_of_a_whole_tree_are_caught(strong: LandlockSandbox) -> None:
    assert out(Unwatched(namespaces=False)) >= WHOLE_TREE
    assert {"tcp_to_host", "udp_to_host"} <= out(Open())


class Broken(LandlockSandbox):
    """Its plans lack a part."""

    def _plan(self, limits: Confinement) -> dict[str, Any]:
        plan = super()._plan(limits)
        del plan["devices"]
        return plan


@pytest.mark.parametrize("entered", [True, False])
def test_a_sandbox_that_cannot_confine_makes_no_attempt(strong: LandlockSandbox, entered: bool) -> None:
    assert run_probes(Broken(), entered=entered) == ()


class Older(LandlockSandbox):
    """Enters as on kernels whose Landlock does not hold signals."""

    def enter(self, limits: Confinement) -> None:
        from apex_sandboxes.inside import launch

        launch.confine({**self._plan(limits), "network": False, "own_network": False}, own_tree=True)


def test_a_process_may_go_on_in_a_tree_of_its_own(strong: LandlockSandbox) -> None:
    if not strong._namespaces:
        pytest.skip("namespaces are not allowed here")
    assert out(Older(), entered=True) == set()


LOOKS_UP = """
import os, unittest

class T(unittest.TestCase):
    def test_beside(self):
        self.assertEqual(sorted(os.listdir(os.pardir)), ["tmp", "work"])

    def test_above(self):
        with self.assertRaises(OSError):
            os.listdir(os.path.join(os.pardir, os.pardir))

    def test_put_beside(self):
        with self.assertRaises(OSError):
            open(os.path.join(os.pardir, "left"), "w")
"""


@pytest.fixture
def checkouts(strong: LandlockSandbox) -> Iterator[CheckoutWorkspaces]:
    made = CheckoutWorkspaces(sandbox=strong)
    yield made
    made.close()


def test_of_what_lies_above_the_work_only_the_runs_own_folder_is_shown(checkouts: CheckoutWorkspaces) -> None:
    task = Task("t", "s", "dev", "i", "c", files={"a.py": LOOKS_UP}, run={"runner": "unittest", "tests": ["a.py"]})
    others = [checkouts.create(task) for _ in range(2)]
    outcomes = others[0].run_tests().outcomes
    assert {o.id.rpartition(".")[2]: (o.status, o.detail) for o in outcomes} == dict.fromkeys(
        ("test_beside", "test_above", "test_put_beside"), ("passed", "")
    )
