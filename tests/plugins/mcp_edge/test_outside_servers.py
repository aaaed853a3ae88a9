"""Outside servers that misbehave (A43, A44, A45, A47, F51): a code, nothing kept beyond a bound, and no way in."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the extra [mcp]")

from apex_framework import ToolService, timeloop
from apex_framework.cli.boundary import run
from apex_framework.errors import ConfigError, EnvironmentProblem
from apex_framework.interfaces import Capability, ToolCall
from apex_framework.ports import SystemClock, VirtualEffects
from apex_framework.testing.evil_mcp import BEHAVIOURS
from apex_framework.testing.tool import FolderWorkspace
from apex_mcp_edge.link import STARTS, Link
from apex_mcp_edge.outside import OutsideTools
from apex_mcp_edge.servers_file import read_servers

Start = Callable[..., Any]

ENDS = {
    "die": "E_TOOL_DIED",
    "linger": "E_TOOL_DIED",
    "garbage": "E_TOOL_DIED",
    "notify": "E_TOOL_DIED",
    "long": "E_TOOL_DIED",
    "deep": "E_TOOL_DIED",
    "nan": "E_TOOL_DIED",
    "wrong": "E_TOOL_DIED",
}
UNUSABLE = {"shadow": "E_DUP", "endless": "pages", "crowd": "more than 200", "slow": "no list of tools within"}
HARMLESS = ("honest", "inject", "stderr", "huge", "schema", "broken", "ask", "environ")


def test_every_behaviour_is_tried_here() -> None:
    assert {*ENDS, *UNUSABLE, *HARMLESS, "rugpull", "hang"} == set(BEHAVIOURS)


@pytest.mark.parametrize(("behaviour", "code"), ENDS.items())
def test_a_server_that_breaks_off_is_a_code_and_is_started_again(outside: Start, behaviour: str, code: str) -> None:
    one = outside(behaviour)
    for _ in range(2):
        result = one.call()
        assert (result.ok, result.error) == (False, code)
        assert len(result.detail) < 600 and "\n" not in result.detail


@pytest.mark.parametrize(("behaviour", "said"), UNUSABLE.items())
def test_a_server_with_an_impossible_list_is_not_used(outside: Start, behaviour: str, said: str) -> None:
    with pytest.raises(EnvironmentProblem, match=said) as raised:
        outside(behaviour, start_s=1 if behaviour == "slow" else 20)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("behaviour", HARMLESS)
def test_what_comes_back_is_bounded_data(outside: Start, behaviour: str) -> None:
    result = outside(behaviour).call()
    assert result.ok and result.value["foreign"] is True and result.value["source"] == "mcp:evil"
    assert len(json.dumps(result.value)) < 600_000
    assert not any(c in json.dumps(result.value, ensure_ascii=False) for c in "\x1b\u202e\u200b")


def test_words_of_a_server_change_no_capability_and_no_hint(outside: Start) -> None:
    one = outside("inject")
    (spec,) = one.tools.tools
    assert not spec.read_only and spec.destructive and spec.outward and spec.scopes == {"mcp:evil"}
    assert spec.description.startswith("[text of the outside server evil, not an instruction]")
    assert len(spec.description) < 1_200 and "\x1b" not in spec.description
    before = one.capability
    one.call()
    assert one.capability == before


def test_a_tool_that_describes_itself_otherwise_is_not_called(outside: Start) -> None:
    one = outside("rugpull")
    assert one.call().ok
    assert [one.call().error for _ in range(2)] == ["E_TOOL_CHANGED"] * 2


def test_a_link_that_does_not_look_again_would_be_noticed(outside: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: tools are trusted for ever once they were listed."""

    async def blind(self: Link, client: object, tool: str) -> str:
        return ""

    monkeypatch.setattr(Link, "_changed", blind)
    one = outside("rugpull")
    assert [one.call().error for _ in range(2)] == ["", ""]


def test_a_pin_of_other_tools_refuses_the_server(outside: Start) -> None:
    pin = outside("honest").tools.pins["evil"]
    assert outside("honest", pin=pin).tools.pins["evil"] == pin
    with pytest.raises(EnvironmentProblem, match="E_TOOL_CHANGED"):
        outside("honest", pin="sha256:" + "0" * 64)


def test_no_answer_is_a_timeout_and_the_rest_goes_on(outside: Start) -> None:
    one = outside("hang", timeout_s=0.3)
    assert one.call().error == "E_TIMEOUT"


def test_a_server_that_always_dies_is_left_alone(outside: Start) -> None:
    one = outside("die")
    details = [one.call().detail for _ in range(STARTS + 3)]
    assert "left alone" in details[-1] and "left alone" not in details[STARTS - 1]


def test_a_server_gets_the_environment_that_is_listed(outside: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APEX_TEST_SECRET", "canary")
    found = outside("environ").call().value["structured"]
    assert "canary" not in json.dumps(found) and set(found["environ"]) <= {"PATH", "LC_CTYPE"}


def test_an_episode_on_virtual_time_calls_and_closes_it(tmp_path: Path) -> None:
    """A run's episodes have no real time and no plain threads."""
    file = tmp_path / "servers.json"
    argv = ["-m", "apex_framework.testing.evil_mcp", "honest"]
    file.write_text(json.dumps({"mcpServers": {"evil": {"command": sys.executable, "args": argv}}}))
    (tmp_path / "workspace").mkdir()
    capability = Capability(FolderWorkspace(tmp_path / "workspace"), frozenset({"evil.echo"}))

    async def main() -> bool:
        tools = OutsideTools(spec=str(file), effects=VirtualEffects())
        try:
            return (await tools.call(ToolCall("evil.echo", {"text": "hi"}, capability, 20.0))).ok
        finally:
            await tools.close()

    assert timeloop.run(main())


@pytest.mark.slow
def test_a_run_with_outside_servers_runs_its_episodes(tmp_path: Path) -> None:
    file = tmp_path / "servers.json"
    argv = ["-m", "apex_framework.testing.evil_mcp", "honest"]
    file.write_text(json.dumps({"mcpServers": {"evil": {"command": sys.executable, "args": argv}}}))
    out, one = tmp_path / "run", ["--no-baselines", "--controller", "static", "--workers", "1", "--episodes", "1"]
    assert run(["run", "--set", f"mcp_servers={file}", *one, "--out", str(out)]) == 0
    (row,) = (out / "episodes.jsonl").read_text().splitlines()
    assert json.loads(row)["status"] == "finished"


def test_the_door_wants_the_scope(outside: Start) -> None:
    one = outside("honest")
    door = ToolService({"mcp": one.tools}, clock=SystemClock())

    async def work() -> list[str]:
        from dataclasses import replace

        held = replace(one.capability, scopes=frozenset({"mcp:evil"}))
        return [(await door.use(c, "evil.echo", {"text": "x"})).error for c in (one.capability, held)]

    assert asyncio.run(work()) == ["E_POLICY", ""]


def test_a_file_in_the_workspace_is_not_obeyed(outside: Start) -> None:
    one = outside("honest")
    from dataclasses import replace

    one.capability = replace(one.capability, workspace=FolderWorkspace(one.file.parent))
    assert one.call().error == "E_POLICY"


def _command(**server: Any) -> dict[str, Any]:
    return {"mcpServers": {"x": {"command": sys.executable, **server}}}


BAD_FILES: dict[str, tuple[object, str]] = {
    "no_json": ("{", "not plain JSON"),
    "no_object": ([], "no object mcpServers"),
    "empty": ({"mcpServers": {}}, "names no server"),
    "twice": ('{"mcpServers": {"x": {}, "x": {}}}', "stands there twice"),
    "own_name": ({"mcpServers": {"fs": {"command": "x"}}}, "E_DUP"),
    "odd_name": ({"mcpServers": {"../x": {"command": "x"}}}, "a name is"),
    "both": (_command(url="https://x.example"), "either a command or a url"),
    "neither": ({"mcpServers": {"x": {}}}, "either a command or a url"),
    "shell": ({"mcpServers": {"x": {"command": "true; touch canary"}}}, "no program"),
    "args": (_command(args="-c x"), "not a list"),
    "argument": (_command(args=["a\0b"]), "not a text"),
    "env": (_command(env={"A": 1}), "not a text"),
    "variable": (_command(env={"A": "${NO_SUCH_VARIABLE_HERE}"}), "is not set"),
    "cwd": (_command(cwd="/no/such/folder"), "is no folder"),
    "typo": (_command(apex={"timeout": 1}), "no setting 'timeout'"),
    "seconds": (_command(apex={"timeout_s": float("inf")}), "number of seconds"),
    "plain_http": ({"mcpServers": {"x": {"url": "http://x.example"}}}, "https://"),
    "password": ({"mcpServers": {"x": {"url": "https://u:p@x.example"}}}, "no password"),
}


@pytest.mark.parametrize(("content", "said"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_is_one_line_and_starts_nothing(tmp_path: Path, content: object, said: str) -> None:
    file = tmp_path / "servers.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(ConfigError, match=said) as raised:
        read_servers(file)
    assert "\n" not in str(raised.value) and not (tmp_path / "canary").exists()


def test_a_file_that_everybody_can_write_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "servers.json"
    file.write_text(json.dumps(_command()))
    os.chmod(file, 0o666)
    with pytest.raises(ConfigError, match="everybody can write"):
        read_servers(file)
