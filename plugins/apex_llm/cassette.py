"""A cassette: recorded answers and token counts in a JSONL file, found by hash, without prompts or secrets.

Lines: ``{"cassette": 1, "model_id", "context_tokens", "is_llm"}`` first, then ``{"call": hash, "result": {…}}`` and
``{"count": hash, "tokens": n}``. Lines are appended whole. A torn line, which a crash leaves, is skipped with a
warning: it can only lead to a miss, never to a wrong answer.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import threading
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from apex_framework.errors import ModelError
from apex_framework.interfaces import LLMCapabilities, LLMRequest, LLMResult, LLMStatus
from apex_framework.ports import SystemFiles

_log = logging.getLogger(__name__)

VERSION = 1
_SECRET_SHAPES = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|\b(?:sk|pk|rk)-[A-Za-z0-9_-]{20,}"
    r"|\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_\w{30,}"
    r"|\bAKIA[0-9A-Z]{16}\b|\bAIza[\w-]{35}|\bxox[abprs]-[\w-]{10,}|\bhf_[A-Za-z0-9]{30,}"
    r"|\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\."
)
_SECRET_NAMES = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE)


def call_hash(model_id: str, request: LLMRequest) -> str:
    """SHA-256 of the canonical JSON of model and request; ``request_id`` and ``role`` are no part of it."""
    fields = {k: v for k, v in asdict(request).items() if k not in ("request_id", "role")}
    text = json.dumps({"model_id": model_id, **fields}, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def text_hash(text: str) -> str:
    """SHA-256 of a text."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def has_secret(text: str, environment: Mapping[str, str] | None = None) -> bool:
    """Whether a text holds something shaped like a credential, or the value of a variable named like one."""
    if _SECRET_SHAPES.search(text):
        return True
    variables = os.environ if environment is None else environment
    return any(len(value) >= 8 and value in text for name, value in variables.items() if _SECRET_NAMES.search(name))


class Cassette:
    """One file in memory. Raises ModelError when it cannot be read, is no cassette, or is of another version."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header: LLMCapabilities | None = None
        self.calls: dict[str, LLMResult] = {}
        self.counts: dict[str, int] = {}
        self._unwritten: list[dict[str, Any]] = []
        self._guard = threading.Lock()
        self._writing = threading.Lock()
        if path.exists():
            self._load()

    def start(self, capabilities: LLMCapabilities) -> None:
        """Write down the model. Raises ModelError when the cassette is another model's."""
        if self.header is None:
            self.header = capabilities
            header = {"model_id": capabilities.model_id, "context_tokens": capabilities.context_tokens}
            self._keep({"cassette": VERSION, **header, "is_llm": capabilities.is_llm})
        elif self.header.model_id != capabilities.model_id:
            raise ModelError(
                f"{self.path} holds {self.header.model_id!r}, not {capabilities.model_id!r}", "name a new file"
            )

    def add_call(self, key: str, result: LLMResult) -> None:
        """Keep an answer; written at the next ``flush``."""
        self.calls[key] = result
        self._keep({"call": key, "result": asdict(result)})

    def add_count(self, key: str, tokens: int) -> None:
        """Keep a token count; written at the next ``flush``."""
        self.counts[key] = tokens
        self._keep({"count": key, "tokens": tokens})

    def flush(self) -> None:
        """Append what is new, whole lines in one write; blocking; from any thread. Raises OSError."""
        with self._writing:
            with self._guard:
                lines, self._unwritten = self._unwritten, []
            if not lines:
                return
            data = "".join(json.dumps(line, sort_keys=True, separators=(",", ":")) + "\n" for line in lines)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            SystemFiles().append(self.path, ("\n" * self._torn() + data).encode(), sync=False)

    def _keep(self, line: dict[str, Any]) -> None:
        with self._guard:
            self._unwritten.append(line)

    def _torn(self) -> bool:
        """Whether the file ends in the middle of a line."""
        if not self.path.exists() or not self.path.stat().st_size:
            return False
        with open(self.path, "rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"

    def _load(self) -> None:
        try:
            data = self.path.read_bytes()
        except OSError as error:
            raise ModelError(f"{self.path}: {error.strerror}", "name a cassette's file") from error
        for number, line in enumerate(data.splitlines(), 1):
            try:
                self._take(json.loads(line))
            except (ValueError, KeyError, TypeError):
                _log.warning("%s, line %d: skipped", self.path, number)
        if data and self.header is None:
            raise ModelError(f"{self.path} is no cassette", "name a file that the backend replay recorded")

    def _take(self, line: dict[str, Any]) -> None:
        if "cassette" in line:
            if line["cassette"] != VERSION:
                raise ModelError(f"{self.path} is a cassette of version {line['cassette']}", "record it anew")
            self.header = LLMCapabilities(line["model_id"], line["context_tokens"], True, line["is_llm"])
        elif "call" in line:
            result = line["result"]
            self.calls[line["call"]] = LLMResult(**{**result, "status": LLMStatus(result["status"])})
        elif "count" in line:
            self.counts[line["count"]] = int(line["tokens"])
