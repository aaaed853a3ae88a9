"""``apex mcp install``: one server more in a host's file, and everything else as it was."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from apex_framework.cli.boundary import run


def install(*arguments: object) -> int:
    return run(["mcp", "install", *map(str, arguments)])


def test_it_merges_and_keeps_the_rest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "host.json"
    before: dict[str, Any] = {"theme": "dark", "mcpServers": {"other": {"command": "x", "args": ["ü"]}}}
    file.write_text(json.dumps(before))
    file.chmod(0o640)
    for _ in range(2):
        assert install("fs", "test", "--root", tmp_path, "--client", file) == 0
    after = json.loads(file.read_text())
    assert after["theme"] == "dark" and after["mcpServers"]["other"] == before["mcpServers"]["other"]
    assert after["mcpServers"]["apex-fs"]["args"][-2:] == ["--root", str(tmp_path)]
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert str(file) in capsys.readouterr().out
    assert [p.name for p in tmp_path.iterdir()] == ["host.json"]


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"mcpServers": []}', '{"a": 1, "a": 2}', "{} // x", "\x00", "[" * 100_000]
)
def test_a_broken_file_is_refused_and_stays(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "host.json"
    file.write_text(text)
    assert install("fs", "--root", tmp_path, "--client", file) == 2
    assert file.read_text() == text and capsys.readouterr().err.startswith("error[E0202]")


def test_another_server_of_the_name_is_replaced_only_when_told(tmp_path: Path) -> None:
    file, other = tmp_path / "host.json", {"command": "x"}
    file.write_text(json.dumps({"mcpServers": {"apex-fs": other}}))
    assert install("fs", "--root", tmp_path, "--client", file) == 2
    assert json.loads(file.read_text())["mcpServers"]["apex-fs"] == other
    assert install("fs", "--root", tmp_path, "--client", file, "--force") == 0
    assert json.loads(file.read_text())["mcpServers"]["apex-fs"] != other


def test_known_hosts_have_their_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    for client in ("claude", "cursor", "vscode"):
        assert install("fs", "--root", tmp_path, "--client", client, "--read-only") == 0
    assert "apex-fs" in json.loads((tmp_path / ".cursor/mcp.json").read_text())["mcpServers"]
    assert "apex-fs" in json.loads((tmp_path / ".vscode/mcp.json").read_text())["servers"]


def test_a_link_to_the_file_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("{}")
    link.symlink_to(real)
    assert install("fs", "--root", tmp_path, "--client", link) == 0
    assert link.is_symlink() and "apex-fs" in real.read_text()


@pytest.mark.parametrize("client", ["claud", "cursorr", "host"])
def test_a_misspelt_host_is_no_file(
    tmp_path: Path, client: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert install("fs", "--root", tmp_path, "--client", client) == 2
    assert not list(tmp_path.iterdir())
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2 and "claude, cursor, vscode" in said[1]
    assert install("fs", "--root", tmp_path, "--client", f"./{client}") == 0
    assert [p.name for p in tmp_path.iterdir()] == [client]


def test_a_runner_is_written_for_the_tests_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "host.json"
    assert install("fs", "test", "--root", tmp_path, "--client", file, "--runner", "pytest") == 0
    servers = json.loads(file.read_text())["mcpServers"]
    assert servers["apex-test"]["args"][-4:] == ["--workspace", "checkout", "--runner", "pytest"]
    assert servers["apex-fs"]["args"][-2:] == ["--root", str(tmp_path)]
    before = file.read_text()
    assert install("test", "--root", tmp_path, "--client", file, "--workspace", "nowhere") == 2
    assert file.read_text() == before and "nowhere" in capsys.readouterr().err


@pytest.mark.parametrize("root", ["missing", "file.py"])
def test_a_root_that_is_none_is_two_lines(tmp_path: Path, root: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file.py").write_text("")
    assert install("fs", "--root", tmp_path / root, "--client", tmp_path / "host.json") == 2
    assert not (tmp_path / "host.json").exists()
    assert len(capsys.readouterr().err.splitlines()) == 2
