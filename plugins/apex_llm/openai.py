"""Backend ``openai``: any server that speaks the OpenAI API; chat or completions, in one piece or as a stream."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, Final

from apex_framework.errors import BackendError, ConfigError, Failure
from apex_framework.interfaces import (
    Chunk,
    Finding,
    Health,
    LLMCapabilities,
    LLMRequest,
    LLMResult,
    ModelIdentity,
    Needs,
)

from .connections import DRAIN_S, MAX_BYTES
from .deadlines import HEALTH_S, Deadlines, Waiting
from .examine import examine_server, no_such_server
from .network import PooledHTTPClient, Reply
from .openai_form import Answer, fields, final, pieces, refusal, status
from .settings import Address, Key, estimated_tokens, first_set, one_of, whole
from .sse import EventParser

OFFICIAL: Final = "api.openai.com"


class OpenAIBackend:
    """A model behind an OpenAI-compatible server.

    ``spec`` or ``model`` names the model. The address is ``base_url``, else APEX_OPENAI_BASE_URL, else OPENAI_BASE_URL;
    ``/v1`` is added when it lacks it. The key comes from APEX_OPENAI_API_KEY; OPENAI_API_KEY is used only for the
    address that OPENAI_BASE_URL names and for OpenAI's own, so that it never goes to another server. Both are read when
    the backend is made. ``api`` is ``chat`` or ``completions``. Deadlines are seconds (see ``Deadlines``). ``pool``
    shares connections with other backends; it is then not closed here.

    ``context_tokens`` says what the model can hold. Tokens are estimated at ``bytes_per_token`` bytes each. Raises
    ConfigError for impossible options, and BackendError, with its kind, for every failure of a call.
    """

    name = "openai"
    address_variables: tuple[str, ...] = ("APEX_OPENAI_BASE_URL", "OPENAI_BASE_URL")
    key_variables: tuple[str, ...] = ("APEX_OPENAI_API_KEY",)
    default_address = ""
    default_model = ""
    more_context = "start the server with more context"

    def __init__(
        self,
        spec: str = "",
        *,
        model: str = "",
        base_url: str = "",
        api: str = "chat",
        context_tokens: int = 8192,
        bytes_per_token: float = 3.5,
        connect_s: float = 5.0,
        first_token_s: float = 60.0,
        idle_s: float = 30.0,
        total_s: float = 300.0,
        max_bytes: int = MAX_BYTES,
        max_connections: int = 64,
        pooling: bool = True,
        ca_file: str = "",
        proxy: str = "",
        pool: PooledHTTPClient | None = None,
    ) -> None:
        self._model = spec or model or self.default_model
        if not self._model:
            raise ConfigError(f"backend {self.name} needs a model", f"--backend {self.name}:MODEL")
        self._address = self._find_address(base_url)
        self._key = self._find_key()
        self._api = one_of("api", api, ("chat", "completions"))
        self._deadlines = Deadlines(connect_s, first_token_s, idle_s, total_s)
        if isinstance(bytes_per_token, bool) or not 0.5 <= bytes_per_token <= 16:
            raise ConfigError(f"bytes_per_token must be between 0.5 and 16, not {bytes_per_token!r}")
        self._bytes_per_token = bytes_per_token
        self._pool = pool or PooledHTTPClient(
            max_connections,
            pooling=pooling,
            connect_s=connect_s,
            ca_file=ca_file,
            proxy=proxy,
            max_bytes=max_bytes,
        )
        self._own_pool = pool is None
        self._capabilities = LLMCapabilities(
            self._model,
            whole("context_tokens", context_tokens),
            deterministic=False,
            seeded=True,
            exact_counts=False,
        )

    @property
    def capabilities(self) -> LLMCapabilities:
        """What it is; the server is not asked."""
        return self._capabilities

    def pool_numbers(self) -> dict[str, float]:
        """``pool_acquire_ms``, ``pool_conn_in_use`` and others, as they are now."""
        return self._pool.numbers.read()

    def count_tokens(self, text: str) -> int:
        """An estimate, by bytes."""
        return estimated_tokens(text, self._bytes_per_token)

    async def generate(self, request: LLMRequest) -> LLMResult:
        """The answer in one piece."""
        waiting = Waiting(self._deadlines)
        async with self._asked(request, waiting, stream=False) as reply:
            data = self._decoded(await waiting.wait(reply.body()), reply)
            answer = final(data)
        return self._result(request, answer, waiting)

    async def stream(self, request: LLMRequest) -> AsyncIterator[Chunk]:
        """The answer in pieces; the last one carries the result."""
        waiting, answer = Waiting(self._deadlines, stream=True), Answer()
        try:
            async with (
                self._asked(request, waiting, stream=True) as reply,
                aclosing(self._events(reply, waiting)) as events,
            ):
                async for data in events:
                    if text := answer.take(pieces(data)):
                        yield Chunk(text)
        except BackendError as error:
            error.partial = error.partial or answer.text
            if error.partial:  # whatever it is called, something was charged
                error.retryable = error.free = False
            raise
        yield Chunk("", self._result(request, answer, waiting))

    async def health(self) -> Health:
        """Whether the server lists its models, this one among them; where it has no list, whether it knows the API."""
        try:
            code, data = await self._get("/models")
            if code in (404, 405):  # a request without a model and a prompt is refused, and costs nothing
                code, data = await self._small("POST", "/chat/completions", {}, root=False, most_s=HEALTH_S)
                if code not in (404, 405):
                    return Health(True)
        except BackendError as error:
            return no_such_server(error)
        if code in (401, 403, 404, 405) or code >= 500:
            return no_such_server(refusal(code, data, {}, self._model, self._key))
        if code == 200 and not isinstance(data, dict):
            cause = "what answers there is no such server: its list of models is no JSON"
            return no_such_server(BackendError(cause, kind=Failure.MALFORMED))
        named = [entry.get("id") for entry in self._listed(data)]
        if named and self._model not in named:
            shown = self._key.quote(", ".join(str(n) for n in named[:5]))
            cause = f"the server has no model {self._model!r}; it has {shown}"
            return Health(False, cause, failure=Failure.NOT_FOUND, remedy=f"name one of these: {self.name}:MODEL")
        return Health(True)

    async def examine(self, needs: Needs) -> Sequence[Finding]:
        """Server, key, model and context."""
        keys = ("OPENAI_API_KEY",) if self._address.host == OFFICIAL else ()
        return await examine_server(
            self, self._address, self._key, (*self.key_variables, *keys), needs, more_context=self.more_context
        )

    async def warm(self) -> None:
        """Open a connection, and see that the server answers. Raises BackendError when it cannot be reached or refuses the key."""
        code, data = await self._get("/models")
        if code in (401, 403):
            raise refusal(code, data, {}, self._model, self._key)

    async def identity(self) -> ModelIdentity:
        """What the server's list of models says of this one."""
        code, data = await self._get("/models")
        if code != 200:
            raise refusal(code, data, {}, self._model, self._key)
        entry = next((m for m in self._listed(data) if m.get("id") == self._model), {})
        length = entry.get("max_model_len")
        return ModelIdentity(self._model, context_tokens=length if type(length) is int and length > 0 else 0)

    async def close(self) -> None:
        """Close the connections that are its own."""
        if self._own_pool:
            await self._pool.close()

    # --- for servers that can do more ---

    def _find_address(self, base_url: str) -> Address:
        variable, value = first_set(*self.address_variables)
        text = base_url or value or self.default_address
        if not text:
            raise ConfigError(
                f"backend {self.name} has no address",
                f"set {self.address_variables[0]}, e.g. to http://127.0.0.1:8000/v1",
            )
        return Address.parse(text, what="base_url" if base_url else variable or "the address")

    def _find_key(self) -> Key:
        key = Key.read(*self.key_variables)
        official = self._address.host == OFFICIAL
        named = first_set(*self.address_variables)[0] == "OPENAI_BASE_URL"
        if not key and self.name == "openai" and (official or named):
            return Key.read("OPENAI_API_KEY")
        return key

    async def _get(self, path: str, *, root: bool = False) -> tuple[int, Any]:
        """Status and decoded body (None when it is no JSON), in seconds at most."""
        return await self._small("GET", path, None, root=root, most_s=HEALTH_S)

    async def _small(
        self, method: str, path: str, data: Any, *, root: bool, most_s: float = math.inf
    ) -> tuple[int, Any]:
        waiting = Waiting(self._deadlines, most_s=most_s)
        url = (self._address.root() if root else self._address.v1()) + path
        async with self._request(method, url, data, waiting) as reply:
            body = await waiting.wait(reply.body())
        try:
            return reply.status, json.loads(body)
        except (ValueError, RecursionError):
            return reply.status, None

    @staticmethod
    def _listed(data: Any) -> list[Mapping[str, Any]]:
        entries = data.get("data") if isinstance(data, dict) else None
        return [entry for entry in entries or [] if isinstance(entry, dict)]

    # --- one call ---

    @asynccontextmanager
    async def _request(self, method: str, url: str, data: Any, waiting: Waiting) -> AsyncIterator[Reply]:
        opened = self._pool.request(method, url, data=data, headers=self._key.headers())
        reply = await waiting.wait(opened.__aenter__())
        try:
            yield reply
        finally:
            await opened.__aexit__(None, None, None)

    @asynccontextmanager
    async def _asked(self, request: LLMRequest, waiting: Waiting, *, stream: bool) -> AsyncIterator[Reply]:
        """A reply of status 200. Raises BackendError for any other."""
        path = "/chat/completions" if self._api == "chat" else "/completions"
        official = self._address.host == OFFICIAL
        data = fields(request, self._model, chat=self._api == "chat", stream=stream, official=official)
        async with self._request("POST", self._address.v1() + path, data, waiting) as reply:
            if reply.status != 200:
                body = await waiting.wait(reply.body())
                try:
                    said = json.loads(body)
                except (ValueError, RecursionError):
                    said = None
                raise refusal(reply.status, said, reply.headers, self._model, self._key)
            yield reply

    async def _events(self, reply: Reply, waiting: Waiting) -> AsyncGenerator[Any, None]:
        """The data of a stream up to its [DONE], which must come."""
        if reply.content_type != "text/event-stream":
            shown = self._key.quote(reply.content_type)
            raise BackendError(f"the server answers with {shown!r} instead of a stream", kind=Failure.MALFORMED)
        parser = EventParser()
        while part := await waiting.wait(reply.some()):
            for event in parser.feed(part):
                waiting.progressed()
                if event.data.strip() == "[DONE]":
                    await _drain(reply)
                    return
                yield self._decoded(event.data, None)
        raise BackendError("the stream ended without its [DONE]", kind=Failure.INCOMPLETE)

    def _decoded(self, text: bytes | str, reply: Reply | None) -> Any:
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            kind = reply.content_type if reply else ""
            what = f" but {self._key.quote(kind)}" if kind and "json" not in kind else ""
            raise BackendError(f"the server's answer is no JSON{what}", kind=Failure.MALFORMED) from error
        if not isinstance(data, dict):
            raise BackendError("the server's answer is no JSON object", kind=Failure.MALFORMED)
        if data.get("error"):
            said = data["error"]
            raise refusal(status(said), data, {}, self._model, self._key)
        return data

    def _result(self, request: LLMRequest, answer: Answer, waiting: Waiting) -> LLMResult:
        return answer.result(
            counted_in=self.count_tokens(request.system + request.prompt),
            counted_out=self.count_tokens(answer.text),
            latency_ms=waiting.elapsed_ms,
        )


async def _drain(reply: Reply) -> None:
    """Give the body the moment that it needs to end, so that the connection can be used again."""
    with suppress(TimeoutError, BackendError):
        async with asyncio.timeout(DRAIN_S):
            while await reply.some():
                pass
