"""Backend ``vllm``: vLLM's server. The OpenAI API, and the server's own tokenizer, version and health."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from apex_framework.errors import BackendError, Failure
from apex_framework.interfaces import Health, ModelIdentity

from .examine import no_such_server
from .openai import OpenAIBackend
from .openai_form import count, refusal


class VLLMBackend(OpenAIBackend):
    """A model behind ``vllm serve``.

    Options as for ``openai``; the address is ``base_url``, else VLLM_BASE_URL, else http://127.0.0.1:8000, and the key
    comes from VLLM_API_KEY. Temperature 0 is not exactly repeatable under batching unless the server runs with
    VLLM_BATCH_INVARIANT=1.
    """

    name = "vllm"
    address_variables = ("VLLM_BASE_URL",)
    key_variables = ("VLLM_API_KEY",)
    default_address = "http://127.0.0.1:8000"
    more_context = "start the server with a larger --max-model-len"

    async def count_batch(self, texts: Sequence[str]) -> Sequence[int]:
        """Tokens of each text by the server's tokenizer, special tokens apart. Raises BackendError."""
        return [await self._count(text) for text in texts]

    async def health(self) -> Health:
        """What ``/health`` and ``/version`` say."""
        try:
            code, data = await self._get("/health", root=True)
            if code != 200:
                return no_such_server(refusal(code, data, {}, self._model, self._key))
            return replace(await super().health(), version=await self._version())
        except BackendError as error:
            return no_such_server(error)

    async def warm(self) -> None:
        """Raises BackendError unless the server is healthy and has the model."""
        health = await self.health()
        if not health.ok:
            raise BackendError(health.detail, kind=Failure.UNAVAILABLE)

    async def identity(self) -> ModelIdentity:
        """Model and context length from the list of models, and the server's version."""
        known = await super().identity()
        version = await self._version()
        return ModelIdentity(known.model_id, context_tokens=known.context_tokens, server=f"vllm {version}".strip())

    async def _version(self) -> str:
        code, data = await self._get("/version", root=True)
        version = data.get("version") if code == 200 and isinstance(data, dict) else None
        return self._key.quote(version) if isinstance(version, str) else ""

    async def _count(self, text: str) -> int:
        asked = {"model": self._model, "prompt": text, "add_special_tokens": False}
        code, data = await self._small("POST", "/tokenize", asked, root=True)
        if code != 200:
            raise refusal(code, data, {}, self._model, self._key)
        tokens = data.get("count") if isinstance(data, dict) else None
        if not count(tokens):
            raise BackendError("/tokenize does not answer with a count", kind=Failure.MALFORMED)
        return tokens
