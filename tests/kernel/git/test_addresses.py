"""Addresses that agents name: none leads to a private place, by no spelling, no resolver and no redirect."""

from __future__ import annotations

import http.server
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apex_framework.errors import ConfigError, GitError
from apex_framework.git import Repository, addresses, cloning, networks_of, runner
from apex_framework.git.addresses import pinned

PRIVATE = [
    "127.0.0.1", "127.8.8.8", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.100.100.200", "0.0.0.0",
    "255.255.255.255", "224.0.0.1", "240.0.0.1", "198.18.0.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1",
    "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::", "2001:db8::1",
]  # fmt: skip
PUBLIC = ["93.184.216.34", "8.8.8.8", "2606:2800:220:1:248:1893:25c8:1946", "64:ff9b::808:808"]
LOOPBACK = networks_of(["127.0.0.0/8"])


class Listener:
    """Counts who connects."""

    def __init__(self, answer: Any = None, context: ssl.SSLContext | None = None) -> None:
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), answer or http.server.BaseHTTPRequestHandler)
        self.port, self.seen = self.server.server_address[1], 0
        inner = self.server.get_request

        def counted() -> Any:
            self.seen += 1
            sock, who = inner()
            return (context.wrap_socket(sock, server_side=True) if context else sock), who

        self.server.get_request = counted  # type: ignore[method-assign]  # the socket is counted, and spoken TLS on
        self.server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that hangs up is no news
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def near() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.close()


def resolver(monkeypatch: pytest.MonkeyPatch, *found: str) -> None:
    """What the machine's resolver says of every name."""

    def answers(host: str, port: int, **_: Any) -> list[Any]:
        if not found:
            raise socket.gaierror(-2, "no such name")
        return [(0, 0, 0, "", (address, port)) for address in found]

    monkeypatch.setattr(addresses.socket, "getaddrinfo", answers)


def refused(source: str, place: Path, networks: Any = ()) -> str:
    with pytest.raises(GitError) as caught:
        Repository.clone(source, place / "git", network=True, networks=networks)
    assert not (place / "git").exists() and not list(place.glob(".apex-git-*"))
    return caught.value.refusal


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "LOCALHOST", "127.1", "2130706433", "0x7f.0.0.1", "0x7f000001", "017700000001",
             "127.0.0.1.", "localhost.", "0", "127.000.000.001"]
)  # fmt: skip
def test_no_spelling_of_a_private_address_is_connected_to(near: Listener, host: str, tmp_path: Path) -> None:
    assert refused(f"https://{host}:{near.port}/x", tmp_path) == "E_PROTO"
    assert near.seen == 0


def test_a_network_that_the_operator_allows_is_connected_to(near: Listener, tmp_path: Path) -> None:
    assert refused(f"https://127.0.0.1:{near.port}/x", tmp_path, LOOPBACK) == "E_GIT"  # it speaks no TLS
    assert near.seen > 0


@pytest.mark.parametrize("address", PRIVATE)
def test_names_of_private_addresses_are_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for found in ([address], [PUBLIC[0], address], [address, PUBLIC[0]]):
        resolver(monkeypatch, *found)
        with pytest.raises(GitError, match="not on the public net"):
            pinned("https://harmless.example/x", ())


@pytest.mark.parametrize("address", PUBLIC)
def test_names_of_public_addresses_are_pinned(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    resolver(monkeypatch, address)
    shown = f"[{address}]" if ":" in address else address
    assert pinned("https://Harmless.example/x", ()) == f"harmless.example:443:{shown}"


@given(st.ip_addresses(), st.booleans())
def test_no_address_of_a_private_network_passes(address: Any, inner: bool) -> None:
    if inner and address.version == 4:
        address = ipaddress.IPv6Address(f"::ffff:{address}")
    plain = getattr(address, "ipv4_mapped", None) or address
    if not plain.is_global:
        assert not addresses._allowed(str(address), ()) and addresses._allowed(
            str(plain), networks_of([f"{plain}/{plain.max_prefixlen}"])
        )


def test_git_connects_to_what_was_judged(near: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that no other resolver knows is reached: git asks none."""
    resolver(monkeypatch, "127.0.0.1")
    assert refused(f"https://judged.invalid:{near.port}/x", tmp_path, LOOPBACK) == "E_GIT"
    assert near.seen > 0


def test_planted_a_clone_that_pins_nothing_shows(
    near: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolver(monkeypatch, "127.0.0.1")
    monkeypatch.setattr(cloning, "pinned", lambda *_: "")
    refused(f"https://judged.invalid:{near.port}/x", tmp_path, LOOPBACK)
    assert near.seen == 0


def test_a_name_that_moves_is_not_followed(near: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Judged as one address, and another a moment later: localhost, for every resolver but ours."""
    resolver(monkeypatch, "127.0.0.2")
    monkeypatch.setattr(cloning, "_LIMITS", runner.GitLimits(seconds=5.0))
    assert refused(f"https://localhost:{near.port}/x", tmp_path, networks_of(["127.0.0.2"])) in ("E_GIT", "E_LIMIT")
    assert near.seen == 0


def redirecting(location: str) -> type[http.server.BaseHTTPRequestHandler]:
    class Redirect(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            return None

    return Redirect


@pytest.mark.parametrize("planted", [False, True], ids=["as it is", "planted: redirects on"])
def test_a_redirect_is_not_followed(
    near: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: bool
) -> None:
    trustme = pytest.importorskip("trustme", reason="the extra [dev] is not installed")
    ca = trustme.CA()
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(context)
    settings = {"http.sslCAInfo": str(tmp_path / "ca.pem"), **({"http.followRedirects": "true"} if planted else {})}
    monkeypatch.setattr(runner, "_CONFIG", {**runner._CONFIG, **settings})
    first = Listener(redirecting(f"https://127.0.0.1:{near.port}/y"), context)
    try:
        assert refused(f"https://127.0.0.1:{first.port}/x", tmp_path, LOOPBACK) == "E_GIT"
    finally:
        first.close()
    assert first.seen > 0 and (near.seen > 0) is planted


def test_a_name_that_nobody_knows_is_refused_and_behind_a_proxy_left_to_it(
    near: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolver(monkeypatch)
    assert refused("https://nobody.invalid/x", tmp_path) == "E_PROTO"
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{near.port}")
    assert refused("https://nobody.invalid/x", tmp_path) == "E_GIT" and near.seen > 0
    assert pinned("https://nobody.invalid/x", ()) == "nobody.invalid:443:192.0.2.1"


@pytest.mark.parametrize("source", ["https://h:99999/x", "https://1.2.3/x", "https://a.0x1/x", "https://h./x"])
def test_addresses_that_programs_read_differently_are_refused(source: str, tmp_path: Path) -> None:
    assert refused(source, tmp_path) == "E_PROTO"


def test_networks_that_are_none_are_refused() -> None:
    with pytest.raises(ConfigError, match="home"):
        networks_of(["home"])
