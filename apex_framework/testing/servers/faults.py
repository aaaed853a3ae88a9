"""A server that answers every request wrongly, in one way at a time."""

from __future__ import annotations

import asyncio
import functools
import gzip
import json
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Self

from . import ollama, openai
from .wire import HOST, LoopbackServer, Request, Wire

TOKENS: Final = 3
"""Pieces of text that come before an answer goes wrong in its middle."""
BOMB: Final = 32_000_000
"""Bytes that a compressed body unfolds to."""
LONG: Final = 10_000_000
_FOREVER: Final = 3600.0


@dataclass(slots=True)
class Call:
    """One request to misbehave on, in the words of its protocol: ``openai`` or ``ollama``."""

    request: Request
    wire: Wire
    dialect: str
    stream: bool = field(init=False)

    def __post_init__(self) -> None:
        asked = self.request.json().get("stream", self.dialect == "ollama") if self.request.body else False
        self.stream = bool(asked)

    @property
    def content_type(self) -> str:
        """Of a sound answer."""
        if not self.stream:
            return "application/json"
        return "text/event-stream" if self.dialect == "openai" else "application/x-ndjson"

    def piece(self, text: str = "abc") -> bytes:
        """A piece of text, as a stream has it."""
        if self.dialect == "openai":
            return openai.event(openai.delta(text))
        return ollama.line(ollama.message(text, done=False))

    def event(self, data: Any) -> bytes:
        """Any data, as a stream has it."""
        return openai.event(data) if self.dialect == "openai" else ollama.line(data)

    def last(self, usage: Mapping[str, Any] | None = None) -> bytes:
        """The end of a sound stream, with these counts: those of ``usage`` are ``prompt`` and ``answer``."""
        if self.dialect == "ollama":
            return ollama.line(ollama.message("", done=True, done_reason="stop", **self.counts(usage)))
        counted = {"choices": [], "usage": self.counts(usage)} if usage is not None else {"choices": []}
        return openai.event(openai.delta("", "stop")) + openai.event(counted) + b"data: [DONE]\n\n"

    def counts(self, usage: Mapping[str, Any] | None) -> dict[str, Any]:
        """Counts under the protocol's names."""
        prompt, answer = ("prompt_tokens", "completion_tokens")
        if self.dialect == "ollama":
            prompt, answer = ("prompt_eval_count", "eval_count")
        return {} if usage is None else {prompt: usage["prompt"], answer: usage["answer"]}

    def whole(self, text: str = "abcabc", usage: Mapping[str, Any] | None = None) -> bytes:
        """A sound answer in one piece."""
        if self.dialect == "ollama":
            data = ollama.message(text, done=True, done_reason="stop", **self.counts(usage))
        else:
            data = openai.whole(text, "stop", self.counts(usage) if usage is not None else None)
        return json.dumps(data).encode()

    async def begin(self, **headers: str) -> None:
        """The head of an answer that ends when the connection does, or whose length or chunks ``headers`` tell."""
        self.wire.keep = False
        await self.wire.head(200, {"Content-Type": self.content_type, "Connection": "close", **headers})

    async def say(self, count: int = TOKENS) -> None:
        """Pieces of text, or the beginning of a whole answer."""
        if not self.stream:
            await self.wire.raw(self.whole()[:40])
        for _ in range(count if self.stream else 0):
            await self.wire.raw(self.piece())

    async def sound(self, usage: Mapping[str, Any] | None) -> None:
        """A sound answer but for what is counted."""
        await self.begin()
        if self.stream:
            await self.say()
            await self.wire.raw(self.last(usage))
        else:
            await self.wire.raw(self.whole(usage=usage))


Act = Callable[[Call], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Misbehaviour:
    """What a server does wrong; ``streams`` when only to streams, ``dialects`` whose servers can."""

    summary: str
    act: Act
    streams: bool = False
    dialects: tuple[str, ...] = ("openai", "ollama")


def _refuses(status: int, words: Any, **headers: str) -> Act:
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def act(call: Call) -> None:
        error = words if call.dialect == "openai" or isinstance(words, str) else {"error": words["error"]["message"]}
        await call.wire.reply(status, error, named)

    return act


def _counts(prompt: Any, answer: Any) -> Act:
    return lambda call: call.sound({"prompt": prompt, "answer": answer})


def _error(message: str, code: str = "", kind: str = "error") -> dict[str, Any]:
    return {"error": {"message": message, "code": code, "type": kind}}


async def _closes(call: Call) -> None:
    call.wire.keep = False


async def _resets(call: Call) -> None:
    call.wire.reset()


async def _resets_midway(call: Call) -> None:
    await call.begin(**{"Transfer-Encoding": "chunked"})
    await call.wire.chunk(call.piece() * TOKENS if call.stream else call.whole()[:40])
    await asyncio.sleep(0.02)  # so that what was said arrives before the reset, which overtakes it
    call.wire.reset()


async def _is_silent(call: Call) -> None:
    await asyncio.sleep(_FOREVER)


async def _stops_after_head(call: Call) -> None:
    await call.begin()
    await asyncio.sleep(_FOREVER)


async def _stalls(call: Call) -> None:
    await call.begin()
    await call.say()
    await asyncio.sleep(_FOREVER)


async def _only_comments(call: Call) -> None:
    await call.begin()
    while True:
        await call.wire.raw(b": keep-alive\n\n")
        await asyncio.sleep(0.02)


async def _comments_midway(call: Call) -> None:
    await call.begin()
    await call.say()
    while True:
        await call.wire.raw(b": keep-alive\n\n")
        await asyncio.sleep(0.02)


async def _blank_lines(call: Call) -> None:
    await call.begin()
    while True:
        await call.wire.raw(b"\n")
        await asyncio.sleep(0.02)


async def _drips(call: Call) -> None:
    await call.begin()
    for byte in (call.piece() if call.stream else call.whole()) * 100:
        await call.wire.raw(bytes([byte]))
        await asyncio.sleep(1.0)


async def _cut_json(call: Call) -> None:
    await call.begin()
    await call.say()
    if call.stream:
        await call.wire.raw(call.piece()[:-20])


async def _bad_event(call: Call) -> None:
    await call.begin()
    await call.say()
    await call.wire.raw(b"data: {]\n\n" if call.dialect == "openai" else b"{]\n")
    await call.wire.raw(call.last())


async def _length_too_long(call: Call) -> None:
    body = call.whole() if not call.stream else call.piece() * TOKENS
    await call.begin(**{"Content-Length": str(len(body) + 1000)})
    await call.wire.raw(body)


async def _length_too_short(call: Call) -> None:
    body = call.whole() if not call.stream else call.piece() * TOKENS + call.last()
    await call.begin(**{"Content-Length": str(len(body) // 2)})
    await call.wire.raw(body)


async def _bad_chunk(call: Call) -> None:
    await call.begin(**{"Transfer-Encoding": "chunked"})
    if call.stream:
        await call.wire.chunk(call.piece())
    await call.wire.raw(b"zz\r\nnot a length\r\n")


async def _no_last_chunk(call: Call) -> None:
    await call.begin(**{"Transfer-Encoding": "chunked"})
    await call.wire.chunk(call.piece() if call.stream else call.whole()[:40])


@functools.cache
def _bomb() -> bytes:
    return gzip.compress(bytes(BOMB), compresslevel=1)


async def _gzip_bomb(call: Call) -> None:
    body = _bomb()
    await call.begin(**{"Content-Encoding": "gzip", "Content-Length": str(len(body))})
    await call.wire.raw(body)


async def _long_line(call: Call) -> None:
    await call.begin()
    await call.wire.raw(b"data: " if call.dialect == "openai" and call.stream else b'{"x": "')
    await call.wire.raw(b"x" * LONG)
    await call.wire.raw(b"\n\n")


async def _endless(call: Call) -> None:
    await call.begin()
    if not call.stream:
        await call.wire.raw(b'{"text": "')
    while True:
        await call.wire.raw(call.piece() * 100 if call.stream else b"x" * 65536)


async def _endless_head(call: Call) -> None:
    call.wire.keep = False
    await call.wire.raw(b"HTTP/1.1 200 OK\r\n")
    while True:
        await call.wire.raw(b"X-Filler: " + b"x" * 4000 + b"\r\n")


async def _no_http(call: Call) -> None:
    call.wire.keep = False
    await call.wire.raw(b"SSH-2.0-server\r\n")


async def _no_done(call: Call) -> None:
    await call.begin()
    await call.say()
    if call.dialect == "openai":
        await call.wire.raw(openai.event(openai.delta("", "stop")))


async def _done_only(call: Call) -> None:
    await call.begin()
    await call.say()
    await call.wire.raw(b"data: [DONE]\n\n")


async def _done_twice(call: Call) -> None:
    await call.begin()
    await call.say()
    await call.wire.raw(call.last({"prompt": 5, "answer": TOKENS}) * 2)


async def _text_after_end(call: Call) -> None:
    await call.begin()
    await call.say()
    if call.dialect == "openai":
        await call.wire.raw(openai.event(openai.delta("", "stop")))
    else:
        await call.wire.raw(call.last())
    await call.wire.raw(call.piece("more") + call.last())


async def _bad_utf8(call: Call) -> None:
    await call.begin()
    await call.wire.raw((call.piece() if call.stream else call.whole()).replace(b"abc", b"\xff\xfe\xc3"))
    if call.stream:
        await call.wire.raw(call.last())


async def _wrong_type(call: Call) -> None:
    await call.wire.reply(200, "<html><body>Welcome to the portal. Please log in.</body></html>")


async def _list(call: Call) -> None:
    await call.begin()
    await call.wire.raw(call.event([1, 2]) if call.stream else b"[1, 2]")


async def _nested(call: Call) -> None:
    await call.begin()
    deep = b"[" * 100_000
    await call.wire.raw(b"data: " + deep + b"\n\n" if call.stream and call.dialect == "openai" else deep + b"\n")


async def _no_text(call: Call) -> None:
    await call.begin()
    if call.dialect == "openai":
        odd: dict[str, Any] = {
            "choices": [{"delta": {"content": 7}, "message": {"content": 7}, "finish_reason": "stop"}]
        }
    else:
        odd = {"model": "tiny", "message": {"role": "assistant", "content": 7}, "done": True}
    await call.wire.raw(call.event(odd) if call.stream else json.dumps(odd).encode())


async def _error_inside(call: Call) -> None:
    failed = _error("CUDA error: out of memory") if call.dialect == "openai" else {"error": "CUDA error: out of memory"}
    await call.begin()
    if call.stream:
        await call.say()
    await call.wire.raw(call.event(failed) if call.stream else json.dumps(failed).encode())


async def _too_much(call: Call) -> None:
    await call.begin()
    usage = {"prompt": 5, "answer": 5000}
    if call.stream:
        await call.wire.raw(call.piece() * 5000 + call.last(usage))
    else:
        await call.wire.raw(call.whole("abc" * 5000, usage))


async def _unloads(call: Call) -> None:
    await call.begin()
    data = ollama.message("", done=True, done_reason="unload")
    await call.wire.raw(ollama.line(data))


MISBEHAVIOURS: Mapping[str, Misbehaviour] = MappingProxyType(
    {
        "rate_limited_seconds": Misbehaviour(
            "429, Retry-After: 1", _refuses(429, _error("slow down"), Retry_After="1")
        ),
        "rate_limited_date": Misbehaviour(
            "429, Retry-After: a date", _refuses(429, _error("slow down"), Retry_After="Fri, 31 Dec 2100 23:59:59 GMT")
        ),
        "rate_limited_absurd": Misbehaviour(
            "429, Retry-After: 31,688 years", _refuses(429, _error("slow down"), Retry_After="999999999999")
        ),
        "rate_limited_nonsense": Misbehaviour(
            "429, Retry-After: soon", _refuses(429, _error("slow down"), Retry_After="soon")
        ),
        "server_error": Misbehaviour("500", _refuses(500, _error("internal error"))),
        "bad_gateway": Misbehaviour("502 with a page of HTML", _refuses(502, "<html>502 Bad Gateway</html>")),
        "unavailable": Misbehaviour("503", _refuses(503, _error("loading model"), Retry_After="1")),
        "unauthorized": Misbehaviour("401", _refuses(401, _error("Incorrect API key provided", "invalid_api_key"))),
        "forbidden": Misbehaviour("403", _refuses(403, _error("not for you"))),
        "no_such_model": Misbehaviour("404 for the model", _refuses(404, _error("model not found", "model_not_found"))),
        "wrong_url": Misbehaviour("404 with a page of HTML", _refuses(404, "<html>404 Not Found</html>")),
        "context_exceeded": Misbehaviour(
            "400: the prompt does not fit",
            _refuses(400, _error("the request exceeds the available context size", "", "exceed_context_size_error")),
        ),
        "redirects": Misbehaviour("302 to another host", _refuses(302, "", Location="http://192.0.2.1/v1")),
        "refused": Misbehaviour("nobody listens", _closes),
        "never_accepts": Misbehaviour("a connect is never answered", _closes),
        "closes": Misbehaviour("the connection ends without a word", _closes),
        "resets": Misbehaviour("the connection is reset before an answer", _resets),
        "resets_midway": Misbehaviour("the connection is reset in the middle of an answer", _resets_midway),
        "silent": Misbehaviour("the request is read, and nothing comes", _is_silent),
        "half_open": Misbehaviour("the head comes, and nothing more", _stops_after_head),
        "stalls": Misbehaviour("an answer stops in its middle", _stalls),
        "only_comments": Misbehaviour("keep-alive comments only", _only_comments, True, ("openai",)),
        "comments_midway": Misbehaviour("keep-alive comments after some tokens", _comments_midway, True, ("openai",)),
        "blank_lines": Misbehaviour("blank lines only", _blank_lines, True, ("openai",)),
        "drips": Misbehaviour("one byte a second", _drips),
        "cut_json": Misbehaviour("the connection ends in the middle of a JSON text", _cut_json),
        "bad_event": Misbehaviour("an event that is no JSON", _bad_event, True),
        "length_too_long": Misbehaviour("Content-Length announces more than comes", _length_too_long),
        "length_too_short": Misbehaviour("Content-Length announces less than comes", _length_too_short),
        "bad_chunk": Misbehaviour("a chunk without a length", _bad_chunk),
        "no_last_chunk": Misbehaviour("the last chunk is missing", _no_last_chunk),
        "gzip_bomb": Misbehaviour("32 MB of zeros, compressed", _gzip_bomb),
        "long_line": Misbehaviour("a line of 10 MB", _long_line),
        "endless": Misbehaviour("an answer without an end", _endless),
        "endless_head": Misbehaviour("headers without an end", _endless_head),
        "no_http": Misbehaviour("another protocol", _no_http),
        "no_done": Misbehaviour("the last part of a stream is missing", _no_done, True),
        "done_only": Misbehaviour("[DONE], but no reason for the end", _done_only, True, ("openai",)),
        "done_twice": Misbehaviour("the end of a stream, twice", _done_twice, True),
        "text_after_end": Misbehaviour("text after the end of the answer", _text_after_end, True),
        "bad_utf8": Misbehaviour("bytes that are no UTF-8", _bad_utf8),
        "wrong_type": Misbehaviour("200 with a page of HTML", _wrong_type),
        "list": Misbehaviour("a JSON list instead of an object", _list),
        "nested": Misbehaviour("100,000 nested lists", _nested),
        "no_text": Misbehaviour("a number where the text should be", _no_text),
        "error_inside": Misbehaviour("200, and an error inside", _error_inside),
        "too_much": Misbehaviour("5,000 tokens, whatever was allowed", _too_much),
        "unloads": Misbehaviour("the model is unloaded during the call", _unloads, False, ("ollama",)),
        "usage_missing": Misbehaviour("no token counts", lambda call: call.sound(None)),
        "usage_zero": Misbehaviour("token counts of 0", _counts(0, 0)),
        "usage_low": Misbehaviour("token counts of 1", _counts(1, 1)),
        "usage_absurd": Misbehaviour("token counts of 10^15", _counts(10**15, 10**15)),
        "usage_negative": Misbehaviour("negative token counts", _counts(-5, -7)),
        "usage_no_number": Misbehaviour("token counts that are texts", _counts("5", "many")),
        "usage_nan": Misbehaviour("token counts that are NaN", _counts(float("nan"), float("nan"))),
    }
)
"""Name -> what the server does; each to every request."""


class FaultServer(LoopbackServer):
    """Misbehaves as ``name`` says, in the words of ``dialect`` (``openai`` or ``ollama``). Raises ValueError for an unknown one."""

    def __init__(
        self,
        name: str,
        *,
        dialect: str = "openai",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        rtt_s: float = 0.0,
    ) -> None:
        if name not in MISBEHAVIOURS:
            raise ValueError(f"no such misbehaviour: {name!r}; there are {', '.join(MISBEHAVIOURS)}")
        if dialect not in MISBEHAVIOURS[name].dialects:
            raise ValueError(f"{name!r} is for {', '.join(MISBEHAVIOURS[name].dialects)}")
        super().__init__(port=port, tls=tls, rtt_s=rtt_s)
        self._name, self._dialect = name, dialect
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> Self:
        """Listen, or see to it that nobody does."""
        if self._name not in ("refused", "never_accepts"):
            return super().__enter__()
        listener = socket.create_server((HOST, self._port), backlog=0)
        self._port = listener.getsockname()[1]
        if self._name == "refused":
            listener.close()
            return self
        self._sockets.append(listener)
        for _ in range(4):  # fills the queue, whose length is not exactly the backlog
            waiting = socket.socket()
            waiting.setblocking(False)
            waiting.connect_ex((HOST, self._port))
            self._sockets.append(waiting)
        return self

    def __exit__(self, *exc: object) -> None:
        while self._sockets:
            self._sockets.pop().close()
        if self._name not in ("refused", "never_accepts"):
            super().__exit__(*exc)

    async def answer(self, request: Request, wire: Wire) -> None:
        """Misbehave."""
        await MISBEHAVIOURS[self._name].act(Call(request, wire, self._dialect))
