"""The kits of tool servers, workspaces and sandboxes: ours pass, and each check has one plugin that fails only it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apex_framework.testing import ConformanceError, check_sandbox, check_tool, check_workspace
from apex_framework.testing.broken import sandbox, tool, workspace
from apex_mcp.fs import FsServer
from apex_mcp.test import TestServer
from apex_workspaces.local import LocalWorkspaces
from apex_workspaces.plain import PlainSandbox

KITS: list[tuple[Callable[[Any], None], dict[str, Any]]] = [
    (check_tool, tool.BROKEN),
    (check_workspace, workspace.BROKEN),
    (check_sandbox, sandbox.BROKEN),
]
CASES = [(kit, name, make) for kit, broken in KITS for name, make in broken.items()]


@pytest.mark.parametrize("make", [FsServer, TestServer])
def test_our_tool_servers_conform(make: Callable[[], Any]) -> None:
    check_tool(make)


def test_local_workspaces_conform() -> None:
    check_workspace(LocalWorkspaces)


def test_the_plain_sandbox_conforms() -> None:
    check_sandbox(PlainSandbox)


@pytest.mark.parametrize(
    ("kit", "sound"), [(check_tool, tool.Sound), (check_workspace, workspace.Sound), (check_sandbox, sandbox.Sound)]
)
def test_sound_plugins_conform(kit: Callable[[Any], None], sound: Callable[[], Any]) -> None:
    kit(sound)


@pytest.mark.parametrize(("kit", "name", "make"), CASES, ids=[f"{k.__name__}-{n}" for k, n, _ in CASES])
def test_each_broken_plugin_fails_exactly_its_check(kit: Callable[[Any], None], name: str, make: Any) -> None:
    with pytest.raises(ConformanceError) as raised:
        kit(make)
    assert raised.value.failed == (name,), raised.value


@pytest.mark.parametrize("kit", [k for k, _ in KITS])
def test_every_check_has_its_broken_plugin(kit: Callable[[Any], None]) -> None:
    with pytest.raises(ConformanceError) as raised:
        kit(lambda: 1 / 0)
    assert set(raised.value.failed) == set(dict(zip([k for k, _ in KITS], [b for _, b in KITS], strict=True))[kit])
