"""A server that speaks Ollama's native API: chat, show, tags, ps, version, and unloading by generate.

Written from Ollama's public description of its API. It proves that a client keeps to the published protocol; it proves
nothing about Ollama itself.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from typing import Any, Final

from .model import Model, tokens
from .wire import LoopbackServer, Request, Wire

DIGEST: Final = "0" * 63 + "1"


class OllamaServer(LoopbackServer):
    """Cuts a prompt that does not fit, without a word, as Ollama does; ``cap`` is a context that it never exceeds.

    ``default_ctx`` is what a request gets that does not ask for ``num_ctx``.
    """

    def __init__(
        self,
        model: Model | None = None,
        *,
        cap: int = 0,
        default_ctx: int = 4096,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        rtt_s: float = 0.0,
    ) -> None:
        super().__init__(port=port, tls=tls, rtt_s=rtt_s)
        self.model = model or Model()
        self._cap, self._default_ctx = cap, default_ctx
        self.loaded_ctx = 0
        """The context of the loaded model; 0 when none is loaded."""

    async def answer(self, request: Request, wire: Wire) -> None:
        """Answer as the protocol says."""
        data, name = request.json(), self.model.name
        match request.method, request.path:
            case "GET", "/api/version":
                await wire.reply(200, {"version": "0.0.0+loopback"})
            case "GET", "/api/tags":
                await wire.reply(200, {"models": [{"model": name, "name": name, "digest": DIGEST, "size": 1}]})
            case "GET", "/api/ps":
                loaded = [{"model": name, "name": name, "context_length": self.loaded_ctx}] if self.loaded_ctx else []
                await wire.reply(200, {"models": loaded})
            case "POST", "/api/show" | "/api/chat" | "/api/generate" if data.get("model") != name:
                await wire.reply(404, {"error": f"model '{data.get('model')}' not found"})
            case "POST", "/api/show":
                info = {"general.architecture": "tiny", "tiny.context_length": self.model.context_tokens}
                await wire.reply(200, {"details": {"quantization_level": "F32"}, "model_info": info})
            case "POST", "/api/chat":
                await self._chat(wire, data)
            case "POST", "/api/generate" if not data.get("prompt") and data.get("keep_alive") == 0:
                self.loaded_ctx = 0
                told = {"model": name, "created_at": "2026-01-01T00:00:00Z", "response": ""}
                await wire.reply(200, {**told, "done": True, "done_reason": "unload"})
            case _:
                await wire.reply(404, "404 page not found")

    async def _chat(self, wire: Wire, data: Mapping[str, Any]) -> None:
        options, messages = data.get("options") or {}, data.get("messages") or []
        room = min(options.get("num_ctx") or self._default_ctx, self._cap or self.model.context_tokens)
        self.loaded_ctx = room
        if not messages:
            return await wire.reply(200, message("", done=True, done_reason="load"))
        prompt = "".join(str(m.get("content", "")) for m in messages)
        read = min(len(tokens(prompt)), room)
        pieces, reason = self.model.say(prompt, options.get("num_predict") or 128, options.get("stop") or [])
        end = message("", done=True, done_reason=reason, prompt_eval_count=read, eval_count=len(pieces))
        if data.get("stream") is False:
            await asyncio.sleep(self.model.pause_s * len(pieces))
            end["message"]["content"] = "".join(pieces)
            return await wire.reply(200, end)
        await wire.begin("application/x-ndjson")
        for text in pieces:
            await wire.chunk(line(message(text, done=False)))
            await asyncio.sleep(self.model.pause_s)
        await wire.chunk(line(end))
        await wire.end()


def message(text: str, *, done: bool, model: str = "tiny", **more: Any) -> dict[str, Any]:
    """One object of an answer."""
    said = {"role": "assistant", "content": text}
    return {"model": model, "created_at": "2026-01-01T00:00:00Z", "message": said, "done": done, **more}


def line(data: Any) -> bytes:
    """Data as a line of JSON."""
    return json.dumps(data).encode() + b"\n"
