"""The OpenAI API as data: what a request looks like, and what an answer, a piece of one, and a refusal say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from apex_framework.errors import BackendError, Failure
from apex_framework.interfaces import LLMRequest, LLMResult, LLMStatus

from .settings import Key

SEEDS: Final = 2**31
"""Servers take seeds below this; a larger one is reduced."""
ABSURD: Final = 10**9
"""A count of tokens that no model has."""


def fields(request: LLMRequest, model: str, *, chat: bool, stream: bool, official: bool = False) -> dict[str, Any]:
    """The body of a request. ``official``: OpenAI's own server wants another name for the limit of tokens."""
    data: dict[str, Any] = {"model": model}
    if chat:
        system = [{"role": "system", "content": request.system}] if request.system else []
        data["messages"] = [*system, {"role": "user", "content": request.prompt}]
    else:
        data["prompt"] = request.system + request.prompt
    data["max_completion_tokens" if official and chat else "max_tokens"] = request.max_tokens
    data |= {"temperature": request.temperature, "top_p": request.top_p, "seed": request.seed % SEEDS, "stream": stream}
    if request.stop:
        data["stop"] = list(request.stop)
    if stream:
        data["stream_options"] = {"include_usage": True}
    return data


@dataclass(frozen=True, slots=True)
class Piece:
    """What one answer, or one event of a stream, says."""

    text: str = ""
    finish: str = ""
    usage: Mapping[str, Any] | None = None


def final(data: Mapping[str, Any]) -> Answer:
    """A whole answer. Raises BackendError (malformed) without a text."""
    answer = Answer()
    choice = _choice(data)
    if choice is None:
        raise BackendError("the server's answer has no choice", kind=Failure.MALFORMED)
    message = choice.get("message")
    text = message.get("content") if isinstance(message, dict) else choice.get("text")
    if text is None and isinstance(message, dict):
        text = ""  # a model that only reasoned, or called a tool
    answer.take(Piece(_text(text), str(choice.get("finish_reason") or "stop"), _usage(data)))
    return answer


def pieces(data: Mapping[str, Any]) -> Piece:
    """One event. Raises BackendError (malformed)."""
    choice = _choice(data)
    if choice is None:
        if not isinstance(data.get("choices"), list):
            raise BackendError("an event of the stream has no choices", kind=Failure.MALFORMED)
        return Piece(usage=_usage(data))
    delta = choice.get("delta")
    text = delta.get("content") if isinstance(delta, dict) else choice.get("text")
    return Piece(_text(text if text is not None else ""), str(choice.get("finish_reason") or ""), _usage(data))


class Answer:
    """An answer as it comes."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._finish = ""
        self._usage: Mapping[str, Any] = {}

    @property
    def text(self) -> str:
        """What came so far."""
        return "".join(self._parts)

    def take(self, piece: Piece) -> str:
        """The text that a piece adds. Raises BackendError (malformed) for text after the end."""
        if self._finish and piece.text:
            raise BackendError("text comes after the end of the answer", kind=Failure.MALFORMED, partial=self.text)
        self._finish = self._finish or piece.finish
        self._usage = piece.usage or self._usage
        if piece.text:
            self._parts.append(piece.text)
        return piece.text

    def result(self, *, counted_in: int, counted_out: int, latency_ms: float) -> LLMResult:
        """The result. Counts that the server does not give, or that cannot be, are the counted ones; a piece is a token at least.

        Raises BackendError (incomplete) for an answer that nothing ended.
        """
        text = self.text
        if not self._finish:
            raise BackendError("the stream ended without a reason", kind=Failure.INCOMPLETE, partial=text)
        reported_in, reported_out = self._usage.get("prompt_tokens"), self._usage.get("completion_tokens")
        return LLMResult(
            text,
            reported_in if count(reported_in) and reported_in else counted_in,
            reported_out if count(reported_out) and (reported_out or not text) else max(counted_out, len(self._parts)),
            LLMStatus.LENGTH if self._finish == "length" else LLMStatus.OK,
            latency_ms=latency_ms,
        )


def count(value: object) -> TypeGuard[int]:
    """Whether a number of tokens can be one."""
    return type(value) is int and 0 <= value < ABSURD


def refusal(code: int, data: Any, headers: Mapping[str, str], model: str, key: Key) -> BackendError:
    """What a status and the server's words mean."""
    said, reason = _said(data)
    words = f": {key.quote(said)}" if said and not said.lstrip().startswith("<") else ""
    if code in (400, 413, 422) and _is_about_context(said, reason):
        return BackendError(
            f"the prompt does not fit into the context of {model!r}{words}", kind=Failure.CONTEXT_EXCEEDED
        )
    if code in (401, 403):
        return BackendError(f"the server refuses the key (status {code}){words}", kind=Failure.AUTH)
    if code == 404:
        return BackendError(f"the server knows no such model or address (status 404){words}", kind=Failure.NOT_FOUND)
    if code == 429:
        wait = headers.get("Retry-After")
        return BackendError(
            f"the server limits the rate (status 429){words}", kind=Failure.RATE_LIMITED, retry_after=wait
        )
    if code == 503:
        wait = headers.get("Retry-After")
        return BackendError(f"the server is not ready (status 503){words}", kind=Failure.UNAVAILABLE, retry_after=wait)
    if code >= 500:
        return BackendError(f"the server failed (status {code}){words}", kind=Failure.SERVER)
    if 400 <= code < 500:
        remedy = "see whether the server knows these options and this address"
        return BackendError(
            f"the server refuses the request (status {code}){words}",
            remedy,
            kind=Failure.NOT_FOUND if code == 405 else Failure.MALFORMED,
        )
    return BackendError(f"the server answers with status {code}{words}", kind=Failure.MALFORMED)


def status(error: Any) -> int:
    """The status that an error inside an answer stands for; 500 unless it says."""
    code = error.get("code") if isinstance(error, dict) else None
    return (
        code if type(code) is int and 400 <= code < 600 else 400 if _is_about_context(*_said({"error": error})) else 500
    )


def _said(data: Any) -> tuple[str, str]:
    """The server's words, and its code or type of the error."""
    error = data.get("error", data) if isinstance(data, dict) else data
    if isinstance(error, str):
        return error, ""
    if not isinstance(error, dict):
        return "", ""
    words = next((error[k] for k in ("message", "detail", "error") if isinstance(error.get(k), str)), "")
    return words, " ".join(str(error.get(k)) for k in ("code", "type") if isinstance(error.get(k), str))


def _is_about_context(said: str, reason: str) -> bool:
    """OpenAI and vLLM say ``context_length_exceeded`` or "maximum context length", llama.cpp ``exceed_context_size_error``."""
    text = f"{said} {reason}".lower()
    return any(
        mark in text for mark in ("context_length", "context length", "context_size", "context size", "context window")
    )


def _choice(data: Mapping[str, Any]) -> Mapping[str, Any] | None:
    choices = data.get("choices")
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None


def _usage(data: Mapping[str, Any]) -> Mapping[str, Any] | None:
    usage = data.get("usage")
    return usage if isinstance(usage, dict) else None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise BackendError("the text of the server's answer is no text", kind=Failure.MALFORMED)
    return value
