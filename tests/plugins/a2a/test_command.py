"""The command: what a user types, right and wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from apex_a2a.evil_cards import CARD, KID, key_pair, signed
from apex_framework.cli.boundary import run


def apex(*arguments: str) -> int:
    return run(["a2a", *arguments])


def test_a_token_is_told_once_and_kept_as_its_hash(capsys: pytest.CaptureFixture[str]) -> None:
    assert apex("token", "alice", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (
        told["principal"] == "alice" and len(told["token_sha256"]) == 64 and told["token"] not in told["token_sha256"]
    )


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["token", "a b"], 2, "no name of a principal"),
        (["serve"], 2, "[principals] is empty"),
        (["serve", "--insecure-local", "--host", "0.0.0.0"], 2, "loopback only"),
        (["serve", "--config", "nowhere.toml"], 2, "nowhere.toml"),
        (["serve", "--port", "70000"], 2, "70000"),
        (["verify", "nowhere.json", "--config", "nowhere.toml"], 2, "nowhere.toml"),
    ],
)
def test_wrong_input_is_one_clear_line(
    arguments: list[str], status: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert apex(*arguments) == status
    err = capsys.readouterr().err
    assert words in err and "Traceback" not in err and len(err.splitlines()) <= 2


def test_a_taken_port_is_an_environment_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert apex("serve", "--insecure-local", "--trust-task-code", "--port", port) == 3
    assert "cannot be listened on" in capsys.readouterr().err


def test_verify_believes_the_signed_card_and_not_the_changed_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    private, pem = key_pair()
    (tmp_path / "key.pem").write_text(pem)
    config = tmp_path / "a2a.toml"
    config.write_text(f'[keys.{KID}]\nalg = "ES256"\npem = "{tmp_path}/key.pem"\n')
    card: dict[str, Any] = signed(private, CARD)
    file = tmp_path / "card.json"
    file.write_text(json.dumps(card))
    assert apex("verify", str(file), "--config", str(config)) == 0
    assert "agent: signed" in capsys.readouterr().out
    file.write_text(json.dumps({**card, "name": "another"}))
    assert apex("verify", str(file), "--config", str(config)) == 5
    assert "E_CARD" in capsys.readouterr().err


@pytest.mark.slow
def test_serve_tells_where_it_is_and_ends_when_asked() -> None:
    arguments = ["a2a", "serve", "--json", "--insecure-local", "--trust-task-code", "--port", "0"]
    code = f"import sys; from apex_framework.cli.boundary import run; sys.exit(run({arguments!r}))"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        with urllib.request.urlopen(f"{url}/.well-known/agent-card.json", timeout=10) as answer:
            assert json.load(answer)["name"] == "APEX"
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate()
