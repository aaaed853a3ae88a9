"""Backend ``llama_server``: llama.cpp's own server. The OpenAI API, and its tokenizer, health and properties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from apex_framework.errors import BackendError, Failure
from apex_framework.interfaces import Health, ModelIdentity

from .examine import no_such_server
from .openai import OpenAIBackend
from .openai_form import refusal


class LlamaServerBackend(OpenAIBackend):
    """The model that a ``llama-server`` has loaded; its name here is for the record only, and may be left out.

    Options as for ``openai``; the address is ``base_url``, else LLAMA_SERVER_BASE_URL, else http://127.0.0.1:8080, and
    the key comes from LLAMA_API_KEY, which the server itself reads.
    """

    name = "llama_server"
    address_variables = ("LLAMA_SERVER_BASE_URL",)
    key_variables = ("LLAMA_API_KEY",)
    default_address = "http://127.0.0.1:8080"
    default_model = "llama_server"
    more_context = "start the server with a larger --ctx-size"

    async def count_batch(self, texts: Sequence[str]) -> Sequence[int]:
        """Tokens of each text by the server's tokenizer, special tokens apart. Raises BackendError."""
        return [await self._count(text) for text in texts]

    async def health(self) -> Health:
        """What ``/health`` says; while the model is loading it is not healthy."""
        try:
            code, data = await self._get("/health", root=True)
            if code != 200:
                return no_such_server(refusal(code, data, {}, self._model, self._key))
            if not isinstance(data, dict):
                cause = "what answers there is no llama-server: its health is no JSON"
                return no_such_server(BackendError(cause, kind=Failure.MALFORMED))
            return Health(True, version=await self._version())
        except BackendError as error:
            return no_such_server(error)

    async def warm(self) -> None:
        """Raises BackendError unless the server has loaded its model."""
        health = await self.health()
        if not health.ok:
            raise BackendError(health.detail, kind=Failure.UNAVAILABLE)

    async def identity(self) -> ModelIdentity:
        """The loaded file, its context per slot and the server's build, from ``/props``."""
        code, props = await self._props()
        if code != 200:
            raise refusal(code, props, {}, self._model, self._key)
        settings = props.get("default_generation_settings")
        length = settings.get("n_ctx") if isinstance(settings, dict) else None
        loaded = props.get("model_alias") or props.get("model_path") or self._model
        return ModelIdentity(
            self._key.quote(str(loaded)),
            context_tokens=length if type(length) is int and length > 0 else 0,
            server=f"llama.cpp {_build(props)}".strip(),
        )

    async def _props(self) -> tuple[int, Mapping[str, Any]]:
        code, data = await self._get("/props", root=True)
        return code, data if isinstance(data, dict) else {}

    async def _version(self) -> str:
        code, props = await self._props()
        return _build(props) if code == 200 else ""

    async def _count(self, text: str) -> int:
        code, data = await self._small("POST", "/tokenize", {"content": text, "add_special": False}, root=True)
        if code != 200:
            raise refusal(code, data, {}, self._model, self._key)
        tokens = data.get("tokens") if isinstance(data, dict) else None
        if not isinstance(tokens, list):
            raise BackendError("/tokenize does not answer with tokens", kind=Failure.MALFORMED)
        return len(tokens)


def _build(props: Mapping[str, Any]) -> str:
    build = props.get("build_info")
    return build[:60] if isinstance(build, str) and build.isprintable() else ""
