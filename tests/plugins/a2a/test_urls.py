"""Addresses of clients: judged as resolved, connected to as judged."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from a2a.server.context import ServerCallContext
from a2a.server.tasks import InMemoryPushNotificationConfigStore
from a2a.types import Task, TaskPushNotificationConfig

from apex_a2a.refusal import Refusal
from apex_a2a.settings import Push
from apex_a2a.urls import PinnedSender, allowed, vet

PLAIN = Push(True, plain_http=True, deadline_s=2.0)


class Names:
    """A resolver that gives its answers in order, the last one for ever."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers, self.asked = list(answers), 0

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1",
        "255.255.255.255", "::1", "::", "fe80::1%eth0", "fc00::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "ff02::1",
        "2002:7f00:1::", "nonsense", "",
    ],
)  # fmt: skip
def test_a51_what_is_not_public_is_not_connected_to(address: str) -> None:
    assert not allowed(address, ())


def test_public_addresses_and_those_that_the_operator_names_are() -> None:
    assert allowed("93.184.216.34", ()) and allowed("2606:2800:220:1::1", ())
    assert allowed("10.1.2.3", ("10.1.2.0/24",)) and not allowed("10.1.3.3", ("10.1.2.0/24",))


@pytest.mark.parametrize(
    "url",
    [
        "http://evil.example/", "ftp://evil.example/", "https://", "https://a:b@evil.example/", "https://[::1", "//x",
        "https://evil.example/#f", "https://evil.example:99999/", "https://evil.example/\n", "https://ev il/", "",
        "https://evil.example\\@good.example/", "https://x/" + "y" * 3000,
    ],
)  # fmt: skip
def test_a51_odd_urls_are_refused_before_anything_is_resolved(url: str) -> None:
    names = Names(["93.184.216.34"])
    with pytest.raises(Refusal, match="E_URL"):
        asyncio.run(vet(url, Push(True), names))
    assert names.asked == 0


def test_a51_one_private_address_among_many_is_enough() -> None:
    with pytest.raises(Refusal, match="E_URL"):
        asyncio.run(vet("https://evil.example/", Push(True), Names(["93.184.216.34", "127.0.0.1"])))


async def _listen(answer: bytes) -> tuple[asyncio.Server, list[bytes]]:
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        await writer.drain()
        writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", 0), heard


async def _send(push: Push, names: Names, answer: bytes) -> tuple[PinnedSender, list[bytes]]:
    server, heard = await _listen(answer)
    port = server.sockets[0].getsockname()[1]
    store = InMemoryPushNotificationConfigStore()
    config = TaskPushNotificationConfig(task_id="t", url=f"http://hook.example:{port}/in?x=1", token="secret")
    await store.set_info("t", config, ServerCallContext())
    sender = PinnedSender(store, push, names)
    async with server:
        await sender.send_notification("t", Task(id="t", context_id="c"))
    return sender, heard


def test_a_notification_goes_to_the_address_that_was_judged_under_its_name() -> None:
    push = Push(True, plain_http=True, allow=("127.0.0.0/8",), deadline_s=2.0)
    sender, heard = asyncio.run(_send(push, Names(["127.0.0.1"]), b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
    assert sender.sent == 1
    assert heard[0].startswith(b"POST /in?x=1 HTTP/1.1\r\n") and b"Host: hook.example:" in heard[0]
    assert b"X-A2A-Notification-Token: secret" in heard[0]


def test_a51_a_name_that_moves_to_a_private_address_is_not_connected_to() -> None:
    names = Names(["93.184.216.34"], ["127.0.0.1"])
    asyncio.run(vet("http://hook.example/", PLAIN, names))  # when it was registered
    sender, heard = asyncio.run(_send(PLAIN, names, b""))
    assert (sender.sent, sender.failed, heard) == (0, 1, [])


def test_a51_a_redirect_is_not_followed() -> None:
    push = Push(True, plain_http=True, allow=("127.0.0.0/8",), deadline_s=2.0)
    answer = b"HTTP/1.1 307 Moved\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n"
    sender, heard = asyncio.run(_send(push, Names(["127.0.0.1"]), answer))
    assert (sender.sent, sender.failed, len(heard)) == (0, 1, 1)


def test_a_hook_that_drips_is_not_waited_for() -> None:
    async def main() -> int:
        over, gone = asyncio.Event(), asyncio.Event()

        async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\n")
            while not over.is_set():  # each byte comes well within the time that one byte may take
                writer.write(b"x")
                await asyncio.sleep(0.02)
            writer.close()
            gone.set()

        server = await asyncio.start_server(drip, "127.0.0.1", 0)
        store = InMemoryPushNotificationConfigStore()
        url = f"http://hook.example:{server.sockets[0].getsockname()[1]}/"
        await store.set_info("t", TaskPushNotificationConfig(task_id="t", url=url), ServerCallContext())
        push = Push(True, plain_http=True, allow=("127.0.0.0/8",), deadline_s=0.3)
        sender = PinnedSender(store, push, Names(["127.0.0.1"]))
        async with server:
            try:
                async with asyncio.timeout(10.0):
                    await sender.send_notification("t", Task(id="t", context_id="c"))
            finally:
                over.set()
                await gone.wait()
        return sender.failed

    assert asyncio.run(main()) == 1


def test_the_name_is_resolved_once_for_each_delivery() -> None:
    push = Push(True, plain_http=True, allow=("127.0.0.0/8",), deadline_s=2.0)
    names = Names(["127.0.0.1"], ["10.0.0.1"])
    sender, _ = asyncio.run(_send(push, names, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
    assert (sender.sent, names.asked) == (1, 1)
