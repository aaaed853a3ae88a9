"""A server that speaks the OpenAI API, with what vLLM and llama.cpp add to it.

Written from the public descriptions of these protocols. It proves that a client keeps to them, not that it works with
any of those servers.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from typing import Any

from .model import Model, tokens
from .wire import LoopbackServer, Request, Wire


class OpenAIServer(LoopbackServer):
    """``/v1/chat/completions``, ``/v1/completions`` and ``/v1/models``; with ``vllm`` also ``/tokenize``, ``/version``
    and ``/health``; with ``llama`` ``/tokenize``, ``/props`` and ``/health`` in llama.cpp's form.

    With ``api_key`` a request without it is refused. Unknown models and prompts that do not fit are refused too.
    """

    def __init__(
        self,
        model: Model | None = None,
        *,
        api_key: str = "",
        vllm: bool = False,
        llama: bool = False,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        rtt_s: float = 0.0,
    ) -> None:
        super().__init__(port=port, tls=tls, rtt_s=rtt_s)
        self.model = model or Model()
        self._api_key, self._vllm, self._llama = api_key, vllm, llama

    async def answer(self, request: Request, wire: Wire) -> None:
        """Answer as the protocol says."""
        if self._api_key and request.headers.get("authorization") != f"Bearer {self._api_key}":
            return await wire.reply(
                401, _error("Incorrect API key provided", "invalid_request_error", "invalid_api_key")
            )
        data = request.json()
        match request.method, request.path:
            case "POST", "/v1/chat/completions":
                prompt = "".join(str(m.get("content", "")) for m in data.get("messages", []))
                await self._complete(wire, data, prompt, chat=True)
            case "POST", "/v1/completions":
                await self._complete(wire, data, str(data.get("prompt", "")), chat=False)
            case "GET", "/v1/models":
                length = {"max_model_len": self.model.context_tokens} if self._vllm else {}
                await wire.reply(
                    200, {"object": "list", "data": [{"id": self.model.name, "object": "model", **length}]}
                )
            case _:
                small = self._small(request.method, request.path, data)
                await wire.reply(
                    200 if small is not None else 404, small if small is not None else _error("Not Found", "", "")
                )

    def _small(self, method: str, path: str, data: Mapping[str, Any]) -> Any:
        model = self.model
        if (method, path) == ("POST", "/tokenize") and self._vllm:
            pieces = tokens(str(data.get("prompt", "")))
            return {"count": len(pieces), "max_model_len": model.context_tokens, "tokens": list(range(len(pieces)))}
        if (method, path) == ("POST", "/tokenize") and self._llama:
            return {"tokens": list(range(len(tokens(str(data.get("content", ""))))))}
        if (method, path) == ("GET", "/health") and (self._vllm or self._llama):
            return {"status": "ok"} if self._llama else {}
        if (method, path) == ("GET", "/version") and self._vllm:
            return {"version": "0.0.0+loopback"}
        if (method, path) == ("GET", "/props") and self._llama:
            settings = {"n_ctx": model.context_tokens}
            return {"default_generation_settings": settings, "model_path": f"{model.name}.gguf", "build_info": "b0"}
        return None

    async def _complete(self, wire: Wire, data: Mapping[str, Any], prompt: str, *, chat: bool) -> None:
        model, most = self.model, data.get("max_tokens", data.get("max_completion_tokens", 16))
        if data.get("model") != model.name and not self._llama:
            return await wire.reply(
                404, _error(f"The model `{data.get('model')}` does not exist", "", "model_not_found")
            )
        asked = len(tokens(prompt))
        if asked + most > model.context_tokens:
            said = (
                f"This model's maximum context length is {model.context_tokens} tokens, {asked + most} were asked for"
            )
            return await wire.reply(400, _error(said, "invalid_request_error", "context_length_exceeded"))
        stop = data.get("stop") or []
        pieces, reason = model.say(prompt, most, [stop] if isinstance(stop, str) else stop)
        usage = {"prompt_tokens": asked, "completion_tokens": len(pieces), "total_tokens": asked + len(pieces)}
        if data.get("stream"):
            return await self._stream(wire, data, pieces, reason, usage, chat=chat)
        await asyncio.sleep(model.pause_s * len(pieces))
        await wire.reply(200, whole("".join(pieces), reason, usage, chat=chat))

    async def _stream(
        self,
        wire: Wire,
        data: Mapping[str, Any],
        pieces: list[str],
        reason: str,
        usage: Mapping[str, int],
        *,
        chat: bool,
    ) -> None:
        await wire.begin("text/event-stream")
        for text in pieces:
            await wire.chunk(event(delta(text, chat=chat)))
            await asyncio.sleep(self.model.pause_s)
        await wire.chunk(event(delta("", reason, chat=chat)))
        if (data.get("stream_options") or {}).get("include_usage"):
            await wire.chunk(event({"object": "chat.completion.chunk", "choices": [], "usage": usage}))
        await wire.chunk(b"data: [DONE]\n\n")
        await wire.end()


def delta(text: str, reason: str | None = None, *, chat: bool = True) -> dict[str, Any]:
    """One event of a stream."""
    content: dict[str, Any] = {"delta": {"content": text} if text else {}} if chat else {"text": text}
    kind = "chat.completion.chunk" if chat else "text_completion"
    return {"id": "1", "object": kind, "choices": [{"index": 0, **content, "finish_reason": reason}]}


def whole(text: str, reason: str, usage: Mapping[str, Any] | None, *, chat: bool = True) -> dict[str, Any]:
    """A whole answer."""
    content: dict[str, Any] = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
    choice = {"index": 0, **content, "finish_reason": reason}
    kind = "chat.completion" if chat else "text_completion"
    return {"id": "1", "object": kind, "choices": [choice], **({"usage": usage} if usage is not None else {})}


def event(data: Any) -> bytes:
    """Data as a server-sent event."""
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def _error(message: str, kind: str, code: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "code": code}}
