"""Backend ``ollama``: Ollama through its official client and native API, which honours ``num_ctx``."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final

import httpx
import ollama

from apex_framework.errors import BackendError, ConfigError, Failure
from apex_framework.interfaces import (
    Chunk,
    Finding,
    Health,
    LLMCapabilities,
    LLMRequest,
    LLMResult,
    LLMStatus,
    LoadedModel,
    ModelIdentity,
    Needs,
)

from .connections import DRAIN_S, MAX_BYTES, PoolNumbers, authorities
from .deadlines import HEALTH_S, Deadlines, Waiting
from .examine import examine_server, no_such_server, unwell
from .guarded import Guarded
from .openai_form import SEEDS, count, refusal
from .perloop import PerLoop
from .settings import Address, Key, estimated_tokens, first_set, whole

PORT: Final = 11434
FEWER: Final = 0.5
"""A prompt of which the server saw less than this share of our estimate was cut."""
SLACK: Final = 64
"""Tokens that estimates of short prompts may be wrong by."""


class OllamaBackend:
    """A model that an Ollama server has.

    ``spec`` or ``model`` names it, tag included (``ollama:qwen2.5-coder:7b``). The address is ``base_url``, else
    OLLAMA_HOST, else http://127.0.0.1:11434; OLLAMA_API_KEY is sent when it is set. ``num_ctx`` (or ``context_tokens``,
    else OLLAMA_CONTEXT_LENGTH, else 8192) is asked for with every call, because a server that is not asked takes its own
    default and cuts longer prompts without a word. ``keep_alive`` is how long the model stays loaded after a call.

    Where the server still cuts a prompt, the call fails (``context_truncated``): when ``prompt_eval_count`` fills the
    context that was asked for or that ``/api/ps`` reports, and when it is less than half of what ``count_tokens``
    estimates. Raises ConfigError for impossible options, and BackendError, with its kind, for every failure of a call.
    """

    name = "ollama"

    def __init__(
        self,
        spec: str = "",
        *,
        model: str = "",
        base_url: str = "",
        num_ctx: int | None = None,
        context_tokens: int | None = None,
        keep_alive: str | float = "5m",
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
    ) -> None:
        self._model = spec or model
        if not self._model:
            raise ConfigError("backend ollama needs a model", "--backend ollama:MODEL, e.g. ollama:qwen2.5-coder:7b")
        self._address = address(base_url)
        self._key = Key.read("OLLAMA_API_KEY")
        wanted = num_ctx or context_tokens or os.environ.get("OLLAMA_CONTEXT_LENGTH") or 8192
        self._num_ctx = whole("num_ctx", wanted)
        self._keep_alive = keep_alive
        self._bytes_per_token = bytes_per_token
        self._deadlines = Deadlines(connect_s, first_token_s, idle_s, total_s)
        self._loaded_ctx = 0
        self._network: dict[str, Any] = {
            "tls": authorities(ca_file, secure=self._address.secure),
            "pooling": pooling,
            "max_connections": whole("max_connections", max_connections),
            "max_bytes": whole("max_bytes", max_bytes),
            "proxy": proxy,
        }
        self._numbers = PoolNumbers()
        self._clients = PerLoop(self._opened)
        self._capabilities = LLMCapabilities(
            self._model, self._num_ctx, deterministic=False, seeded=True, exact_counts=False
        )

    @property
    def capabilities(self) -> LLMCapabilities:
        """What it is; the server is not asked."""
        return self._capabilities

    def pool_numbers(self) -> dict[str, float]:
        """``pool_acquire_ms``, ``pool_conn_in_use`` and others, as they are now."""
        return self._numbers.read()

    def count_tokens(self, text: str) -> int:
        """An estimate, by bytes: Ollama has no tokenizer to ask."""
        return estimated_tokens(text, self._bytes_per_token)

    async def generate(self, request: LLMRequest) -> LLMResult:
        """The answer in one piece."""
        waiting = Waiting(self._deadlines)
        client, _ = await self._clients.get()
        with self._failures():
            said = await waiting.wait(client.chat(**self._fields(request), stream=False))
        if not said.done:
            raise BackendError("the server's answer is not whole", kind=Failure.INCOMPLETE)
        return await self._result(request, said.message.content or "", said, waiting)

    async def stream(self, request: LLMRequest) -> AsyncIterator[Chunk]:
        """The answer in pieces; the last one carries the result."""
        waiting, parts, last = Waiting(self._deadlines, stream=True), list[str](), None
        client, _ = await self._clients.get()
        try:
            with self._failures():
                answer: Any = await waiting.wait(client.chat(**self._fields(request), stream=True))
                try:
                    while last is None and (part := await waiting.wait(anext(answer, None))) is not None:
                        waiting.progressed()
                        last = part if part.done else None
                        if text := part.message.content or "":
                            parts.append(text)
                            yield Chunk(text)
                    if last is not None:
                        await drain(answer)
                finally:
                    await answer.aclose()
            if last is None:
                raise BackendError("the stream ended without its last part", kind=Failure.INCOMPLETE)
            result = await self._result(request, "".join(parts), last, waiting)
        except BackendError as error:
            error.partial = error.partial or "".join(parts)
            if error.partial:  # whatever it is called, something was charged
                error.retryable = error.free = False
            raise
        yield Chunk("", result)

    async def health(self) -> Health:
        """What ``/api/version`` says, and whether the server has the model."""
        try:
            code, data = await self._get("/api/version")
            if code != 200 or not isinstance(data, dict):
                return no_such_server(refusal(code, data, {}, self._model, self._key))
        except BackendError as error:
            return no_such_server(error)
        version = self._key.quote(str(data.get("version", "")))
        try:
            with self._failures():
                client, _ = await self._clients.get()
                await Waiting(self._deadlines, most_s=HEALTH_S).wait(client.show(self._model))
        except BackendError as error:
            if error.kind is Failure.NOT_FOUND:
                error.remedy = f"ollama pull {self._model}, or name a model that `ollama list` shows"
            return replace(unwell(error), version=version)
        return Health(True, version=version)

    async def examine(self, needs: Needs) -> Sequence[Finding]:
        """Server, key, model and context."""
        more = "set OLLAMA_CONTEXT_LENGTH, here and for the server"
        return await examine_server(self, self._address, self._key, ("OLLAMA_API_KEY",), needs, more_context=more)

    async def warm(self) -> None:
        """Load the model, and see with how much context the server did. Raises BackendError."""
        waiting = Waiting(self._deadlines)
        client, _ = await self._clients.get()
        with self._failures():
            options = {"num_ctx": self._num_ctx}
            await waiting.wait(client.chat(self._model, [], options=options, keep_alive=self._keep_alive, stream=False))
            await self._look(waiting)

    async def unload(self) -> None:
        """Have the server unload the model once its calls are answered (``keep_alive`` 0). Raises BackendError."""
        waiting = Waiting(self._deadlines)
        client, _ = await self._clients.get()
        with self._failures():
            await waiting.wait(client.generate(self._model, keep_alive=0, stream=False))

    async def loaded(self) -> Sequence[LoadedModel]:
        """Every model that the server has in memory, the one that is to leave first before the others."""
        waiting = Waiting(self._deadlines, most_s=HEALTH_S)
        client, _ = await self._clients.get()
        with self._failures():
            running = await waiting.wait(client.ps())
            found = sorted(running.models, key=lambda m: m.expires_at.timestamp() if m.expires_at else 0.0)
            return [LoadedModel(m.model or m.name or "", m.size or 0) for m in found]

    async def identity(self) -> ModelIdentity:
        """Digest, quantisation and trained context as ``/api/tags`` and ``/api/show`` have them, and the version."""
        waiting = Waiting(self._deadlines)
        client, _ = await self._clients.get()
        with self._failures():
            shown = await waiting.wait(client.show(self._model))
            listed = await waiting.wait(client.list())
        _, data = await self._get("/api/version")
        names = {self._model, f"{self._model}:latest"}
        digest = next((m.digest for m in listed.models if m.model in names and m.digest), "")
        lengths = [v for k, v in (shown.modelinfo or {}).items() if k.endswith(".context_length") and type(v) is int]
        version = data.get("version", "") if isinstance(data, dict) else ""
        return ModelIdentity(
            self._model,
            model_digest=digest if not digest or ":" in digest else f"sha256:{digest}",
            context_tokens=min([self._num_ctx, *lengths]),
            quantisation=(shown.details.quantization_level or "") if shown.details else "",
            server=f"ollama {self._key.quote(str(version))}".strip(),
        )

    async def close(self) -> None:
        """Close the connections; the model stays loaded for ``keep_alive``."""
        await self._clients.close()

    async def _opened(self) -> AsyncGenerator[tuple[ollama.AsyncClient, Guarded], None]:
        transport = Guarded(self._numbers, **self._network)
        client = ollama.AsyncClient(
            self._address.url,
            follow_redirects=False,
            trust_env=False,
            timeout=httpx.Timeout(None, connect=self._deadlines.connect_s),
            transport=transport,
            headers=self._key.headers(),
        )
        try:
            yield client, transport
        finally:
            await client.close()  # type: ignore[no-untyped-call]  # the client has no annotation there

    async def _get(self, path: str) -> tuple[int, Any]:
        """What the client has no method for. Status and decoded body (None when it is no JSON)."""
        _, transport = await self._clients.get()
        request = httpx.Request("GET", self._address.url + path, headers=self._key.headers())
        limits = {"timeout": {"connect": self._deadlines.connect_s}}
        request.extensions = {**request.extensions, **limits}

        async def ask() -> tuple[int, bytes]:
            response = await transport.handle_async_request(request)
            try:
                return response.status_code, await response.aread()
            finally:
                await response.aclose()

        code, body = await Waiting(self._deadlines, most_s=HEALTH_S).wait(ask())
        try:
            return code, httpx.Response(code, content=body).json()
        except (ValueError, RecursionError):
            return code, None

    def _fields(self, request: LLMRequest) -> dict[str, Any]:
        system = [{"role": "system", "content": request.system}] if request.system else []
        options: dict[str, Any] = {
            "num_ctx": self._num_ctx,
            "num_predict": request.max_tokens,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "seed": request.seed % SEEDS,
        }
        if request.stop:
            options["stop"] = list(request.stop)
        messages = [*system, {"role": "user", "content": request.prompt}]
        return {"model": self._model, "messages": messages, "options": options, "keep_alive": self._keep_alive}

    async def _result(self, request: LLMRequest, text: str, last: Any, waiting: Waiting) -> LLMResult:
        if last.done_reason in ("load", "unload") and not text:
            raise BackendError("the model was unloaded before it had answered", kind=Failure.UNLOADED)
        counted = self.count_tokens(request.system + request.prompt)
        read = last.prompt_eval_count if count(last.prompt_eval_count) and last.prompt_eval_count else 0
        if read:
            await self._check_context(read, counted, text, waiting)
        wrote = last.eval_count
        return LLMResult(
            text,
            read or counted,
            wrote if count(wrote) and (wrote or not text) else self.count_tokens(text),
            LLMStatus.LENGTH if last.done_reason == "length" else LLMStatus.OK,
            latency_ms=waiting.elapsed_ms,
        )

    async def _check_context(self, read: int, counted: int, text: str, waiting: Waiting) -> None:
        """Raises BackendError when the server answered a part of the prompt only."""
        if read < counted - SLACK and not self._loaded_ctx:
            await self._look(waiting)
        held = min(self._num_ctx, self._loaded_ctx or self._num_ctx)
        if read >= held - 1 or read < FEWER * counted - SLACK:
            raise BackendError(
                f"the server read {read:,} tokens of a prompt of about {counted:,}, with room for {held:,}",
                "give a larger num_ctx, or the team a smaller budget",
                kind=Failure.CONTEXT_TRUNCATED,
                partial=text,
            )

    async def _look(self, waiting: Waiting) -> None:
        """With how much context the model was loaded, where the server says it."""
        client, _ = await self._clients.get()
        with self._failures():
            running = await waiting.wait(client.ps())
        names = {self._model, f"{self._model}:latest"}
        found = next((m.context_length for m in running.models if m.model in names or m.name in names), None)
        self._loaded_ctx = found if type(found) is int and found > 0 else self._num_ctx

    @contextmanager
    def _failures(self) -> Any:
        try:
            yield
        except ollama.ResponseError as error:
            raise self._refused(error) from error
        except (ConnectionError, ollama.RequestError) as error:
            raise BackendError("no connection to the server", kind=Failure.CONNECT) from error
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            # What the client raises for bytes that are no JSON, and for JSON that is no answer.
            raise BackendError("the server's answer is not Ollama's", kind=Failure.MALFORMED) from error

    def _refused(self, error: ollama.ResponseError) -> BackendError:
        said = error.error if isinstance(error.error, str) else ""
        lower = said.lower()
        if "runner" in lower and any(mark in lower for mark in ("terminated", "no longer running", "stopped")):
            return BackendError(f"the model's process ended: {self._key.quote(said)}", kind=Failure.UNLOADED)
        code = error.status_code if error.status_code > 0 else 500
        return refusal(code, {"error": said}, {}, self._model, self._key)


async def drain(answer: AsyncGenerator[Any, None]) -> None:
    """Give the body the moment that it needs to end, so that the connection can be used again."""
    with suppress(TimeoutError, BackendError, ollama.ResponseError, ValueError, TypeError, AttributeError):
        async with asyncio.timeout(DRAIN_S):
            while await anext(answer, None) is not None:
                pass


def address(base_url: str) -> Address:
    """Where the server is, with the short forms of OLLAMA_HOST: ``HOST``, ``HOST:PORT``, ``:PORT``. Raises ConfigError."""
    variable, value = ("base_url", base_url) if base_url else first_set("OLLAMA_HOST")
    text = value.strip() or f"http://127.0.0.1:{PORT}"
    if "://" not in text:
        host, _, path = text.partition("/")
        host = f"127.0.0.1{host}" if host.startswith(":") else host
        host = host if host.rpartition("]")[2].count(":") else f"{host}:{PORT}"
        text = f"http://{host}/{path}"
    return Address.parse(text, what=variable or "the address")
