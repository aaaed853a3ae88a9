"""Rows A30 and A34: repositories of other owners, and servers that ask for a password."""

from __future__ import annotations

import http.server
import os
import ssl
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hostile import plain_git

from apex_framework.errors import GitError
from apex_framework.git import GitLimits, Repository, cloning, networks_of, runner


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_a30_a_repository_of_another_owner_is_read_and_not_run_in(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    plain_git(source, "init", "-q", "-b", "main")
    (source / "a.txt").write_text("a\n")
    plain_git(source, "add", "a.txt")
    plain_git(source, "-c", "user.name=x", "-c", "user.email=x@localhost", "commit", "-q", "-m", "one")
    with (source / ".git/config").open("a") as file:
        file.write(f"[core]\n\tfsmonitor = touch {tmp_path}/fired\n[safe]\n\tdirectory = *\n")
    for place, _, names in os.walk(source):
        for path in (place, *(os.path.join(place, name) for name in names)):
            os.chown(path, 12345, 12345)
    plain = subprocess.run(
        ["git", "-C", str(source), "status"],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert "dubious ownership" in plain.stderr  # the control: git itself would not go there
    made = Repository.clone(source, tmp_path / "git", "main")
    assert made.file("main", "a.txt") == b"a\n" and not (tmp_path / "fired").exists()
    assert (tmp_path / "git").stat().st_uid == os.geteuid()


class Asks(http.server.BaseHTTPRequestHandler):
    """Wants a password, and keeps what it is given."""

    given: list[str] = []  # noqa: RUF012 - of the one server of one test

    def do_GET(self) -> None:
        self.given.append(self.headers.get("Authorization", ""))
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="x"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        return None


def test_a34_a_server_that_asks_for_a_password_gets_none_and_nobody_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trustme = pytest.importorskip("trustme", reason="the extra [dev] is not installed")
    ca, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    ca.issue_cert("127.0.0.1").configure_cert(context)
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.netrc").write_text("machine 127.0.0.1 login a password b\n")
    helper = tmp_path / "ask"
    helper.write_text(f"#!{sys.executable}\nopen({str(tmp_path / 'asked')!r}, 'w')\nprint('secret')\n")
    helper.chmod(0o755)
    for name in ("GIT_ASKPASS", "SSH_ASKPASS"):
        monkeypatch.setenv(name, str(helper))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(runner, "_CONFIG", {**runner._CONFIG, "http.sslCAInfo": str(tmp_path / "ca.pem")})
    monkeypatch.setattr(cloning, "_LIMITS", GitLimits(seconds=30.0))  # it ends by itself, long before
    Asks.given = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Asks)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        with pytest.raises(GitError) as caught:
            Repository.clone(
                f"https://127.0.0.1:{server.server_address[1]}/x",
                tmp_path / "git", network=True, networks=networks_of(["127.0.0.0/8"]),
            )  # fmt: skip
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert caught.value.refusal == "E_GIT" and Asks.given and set(Asks.given) == {""}
    assert not (tmp_path / "asked").exists() and not (tmp_path / "git").exists()
