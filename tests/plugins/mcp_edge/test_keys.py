"""Keys of a server in an ``mcpServers`` file: ours, other hosts', and misspelt ones, none passed over in silence."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apex_framework.cli.boundary import run
from apex_framework.errors import ConfigError
from apex_mcp_edge import keys
from apex_mcp_edge.servers_file import OutsideServer, read_servers

OF_OTHERS = {
    "claude code": {"type": "stdio"},
    "cline": {"disabled": False, "autoApprove": ["read"], "timeout": 60},
    "roo": {"alwaysAllow": [], "disabled": False},
    "gemini": {"trust": False, "description": "d"},
    "fastmcp": {"transport": "stdio"},
}


def file_of(folder: Path, server: dict[str, Any]) -> Path:
    file = folder / "servers.json"
    whole = {"command": sys.executable, **server} if "url" not in server else server
    file.write_text(json.dumps({"inputs": [], "mcpServers": {"x": whole}}))
    return file


def read(folder: Path, server: dict[str, Any]) -> OutsideServer:
    (found,) = read_servers(file_of(folder, server))
    return found


@pytest.mark.parametrize("more", OF_OTHERS.values(), ids=OF_OTHERS)
def test_what_other_hosts_write_is_taken_or_said_to_be_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, more: dict[str, Any]
) -> None:
    with caplog.at_level(logging.WARNING):
        assert read(tmp_path, more).argv == (sys.executable,)
        read(tmp_path, more)
    told = "".join(caplog.messages)
    ignored = sorted(more.keys() & keys.IGNORED)
    assert len(caplog.messages) == bool(ignored), "said once"
    assert told.endswith(", ".join(ignored))


@pytest.mark.parametrize("kind", ["http", "streamable-http", "streamableHttp"])
def test_a_url_may_name_its_transport(tmp_path: Path, kind: str) -> None:
    assert read(tmp_path, {"url": "https://x.example/mcp", "type": kind}).url == "https://x.example/mcp"


MISSPELT = {
    "comand": "command",
    "arg": "args",
    "Args": "args",
    "ENV": "env",
    "header": "headers",
    "URL": "url",
    "Disabled": "disabled",
    "apx": "apex",
    "typ": "type",
}


@pytest.mark.parametrize(("key", "meant"), MISSPELT.items())
def test_a_misspelt_key_is_one_line_with_the_nearest_right_one(tmp_path: Path, key: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"server 'x' has no setting '{key}'") as raised:
        read(tmp_path, {key: "x"})
    assert raised.value.remedy.startswith(f"did you mean '{meant}'? ")
    assert "known: apex, args, command" in raised.value.remedy and "\n" not in f"{raised.value}{raised.value.remedy}"


@pytest.mark.parametrize("key", keys.INSTEAD)
def test_what_would_mean_something_else_if_left_out_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigError, match=f"'{key}' is not read here") as raised:
        read(tmp_path, {key: ["read"]})
    assert raised.value.remedy == keys.INSTEAD[key]


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ({"type": "sse", "url": "https://x.example/sse"}, "type 'sse' is not spoken here"),
        ({"type": "http"}, "type 'http' does not go with a command"),
        ({"type": "stdio", "url": "https://x.example"}, "type 'stdio' does not go with a url"),
        ({"type": 7}, "type 7 does not go with a command"),
        ({"transport": "pigeon"}, "transport 'pigeon' does not go with a command"),
        ({"disabled": "true"}, "disabled is not true or false"),
        ({"apex": {"timeouts": 3}}, "apex has no setting 'timeouts'"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused(tmp_path: Path, server: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read(tmp_path, server)


def test_what_belongs_to_the_other_way_is_said_to_be_ignored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        read(tmp_path, {"url": "https://x.example", "env": {"A": "b"}})
        read(tmp_path, {"headers": {"A": "b"}})
    assert [message.rpartition(": ")[2] for message in caplog.messages] == ["env", "headers"]


@given(st.text(max_size=20))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_key_is_passed_over(tmp_path: Path, key: str) -> None:
    if key in {*keys.USED, *keys.IGNORED}:
        return
    with pytest.raises(ConfigError):
        read(tmp_path, {key: "x"})


def test_planted_a_reader_that_takes_any_key_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apex_mcp_edge.servers_file.check_keys", lambda where, given: None)
    assert read(tmp_path, {"comand": "x"}).argv == (sys.executable,)


def test_the_command_says_it_in_two_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mcp", "tools", str(file_of(tmp_path, {"disabledd": True}))]) == 2
    said, remedy = capsys.readouterr().err.splitlines()
    assert said.startswith("error[E") and "'disabledd'" in said and "did you mean 'disabled'?" in remedy


@pytest.mark.parametrize("command", ["serve", "install"])
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["test", "--runner", "nonsense"], "--runner nonsense: unknown runner 'nonsense'"),
        (["test", "--runner", "nonsense", "--workspace", "local"], "--runner nonsense: unknown runner 'nonsense'"),
        (["fs", "--runner", "pytest"], "--workspace and --runner belong to the tools test"),
        (["fs", "git", "--workspace", "local"], "--workspace and --runner belong to the tools test"),
    ],
)
def test_a_runner_that_cannot_be_is_refused_at_the_start(
    root: Path, capsys: pytest.CaptureFixture[str], command: str, arguments: list[str], said: str
) -> None:
    file = root.parent / "hosts.json"
    more = ["--client", str(file)] if command == "install" else []
    assert run(["mcp", command, *arguments, "--root", str(root), *more]) == 2
    told = capsys.readouterr()
    assert said in told.err and "Traceback" not in told.err and not told.out and not file.exists()


def test_a_runner_that_is_known_is_installed(root: Path) -> None:
    file = root.parent / "hosts.json"
    assert run(["mcp", "install", "test", "--runner", "pytest", "--root", str(root), "--client", str(file)]) == 0
    assert json.loads(file.read_text())["mcpServers"]["apex-test"]["args"][-1] == "pytest"
