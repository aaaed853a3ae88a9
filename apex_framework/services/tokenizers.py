"""Whose count of tokens to believe: the backend's own, a tokenizer loaded here, the server's, or a calibrated guess."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ..budget.estimates import count
from ..errors import ApexError, BackendError
from ..interfaces.llm import (
    CountsAhead,
    CountsRequests,
    CountsTokens,
    LLMBackend,
    LLMRequest,
    LoadsTokenizer,
    Tokenizer,
)
from ..ports import Clock, Effects
from .bounded import bounded
from .calibration import Calibration
from .loading import InThread, Loading, OnLoop
from .usage import Count

_log = logging.getLogger(__name__)

OWN, LOADED, SERVER, GUESS = "own", "loaded", "server", "guess"
AGAIN_S: Final = 30.0
"""After a failure a tokenizer is loaded, or a server asked to count, only so much later."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A prompt's tokens: ``tokens`` is the estimate, ``admitted`` what to reserve for it.

    ``heard`` of them came from other agents. ``bare`` is what was counted, before anything that was learned.
    """

    tokens: int
    admitted: int
    heard: int
    bare: int
    source: str = OWN
    took_ms: float = 0.0

    @property
    def margin(self) -> float:
        """How many times the estimate is in ``admitted``, from 1 to 100."""
        return min(100.0, max(1.0, self.admitted / self.tokens)) if self.tokens else 1.0


@dataclass(slots=True)
class TokenizerStats:
    """How one model's prompts were counted. Errors are means over the calls whose report was believed."""

    source: str = OWN
    counts: int = 0
    loads: int = 0
    tokenize_ms: float = 0.0
    """Mean."""
    token_est_abs_err_pct: float = 0.0
    """Of the estimate, without its sign."""
    token_est_bias_pct: float = 0.0
    """Of what was reserved, with its sign."""
    compared: int = 0


@dataclass(slots=True)
class _Entry:
    """What is known of one model's tokens."""

    stats: TokenizerStats
    tokenizer: Tokenizer | None = None
    loading: Loading[Tokenizer] | None = None
    rests_until: dict[str, float] = field(default_factory=dict)
    calibrations: dict[bool, Calibration] = field(
        default_factory=lambda: {exact: Calibration(exact) for exact in (True, False)}
    )


class TokenizerPool:
    """Counts by model id. Tokenizers are loaded once, off the loop; of more than ``most`` the least recently used goes.

    For a backend with ``exact_counts`` its own count is the truth, but for the chat template of a real model, unless it
    counts whole requests; what templates add is learned. For the others the order is: a tokenizer that can be loaded
    here (``LoadsTokenizer``), the server's count (``CountsTokens``), the backend's estimate, calibrated by what
    models report. Loading is waited for at most ``load_s``, the server ``count_s``; then, and after a failure, the next
    in order serves. ``clock`` tells how long counting takes; without one nobody measures.

    It may be used from one event loop after another, as each episode has one: a tokenizer is loaded in a thread that belongs
    to none of them. Not from several at once. In virtual time ``effects`` load, on the loop, and the pool is that loop's.
    """

    def __init__(
        self,
        *,
        most: int = 4,
        effects: Effects | None = None,
        clock: Clock | None = None,
        load_s: float = 5.0,
        count_s: float = 1.0,
    ) -> None:
        self._most = max(1, most)
        self._effects = effects
        self._clock = clock
        self._load_s, self._count_s = load_s, count_s
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self.stats: dict[str, TokenizerStats] = {}
        """Model id -> numbers."""
        self.evicted = 0

    async def count(self, backend: LLMBackend, request: LLMRequest, heard: str = "") -> Counted:
        """A prompt's tokens, and how many of them ``heard`` is. Raises BackendError when the backend cannot even guess.

        Nothing is awaited for a backend with ``exact_counts``, unless another process counts for it (``CountsAhead``).
        """
        entry = self._entry(backend)
        began = self._now_ms()
        if backend.capabilities.exact_counts:
            if isinstance(backend, CountsAhead):
                await _ahead(backend, request, heard)
            bare, part, source = _own(backend, request), count(backend, heard) if heard else 0, OWN
        else:
            bare, part, source = await self._foreign(backend, entry, request, heard)
        took_ms = self._now_ms() - began
        stats = entry.stats
        stats.source, stats.counts = source, stats.counts + 1
        stats.tokenize_ms += (took_ms - stats.tokenize_ms) / stats.counts
        if source == OWN and _whole(backend):
            return Counted(bare, bare, min(part, bare), bare, source, took_ms)
        calibration = entry.calibrations[source != GUESS]
        tokens = calibration.raw(bare)
        part = min(round(part * calibration.slope), tokens)
        return Counted(tokens, max(tokens, calibration.admitted(bare)), part, bare, source, took_ms)

    def learn(self, backend: LLMBackend, counted: Counted, actual: int) -> None:
        """The model reported ``actual`` tokens for that prompt, and is believed."""
        if actual < 1 or not counted.tokens:
            return
        entry = self._entry(backend)
        stats = entry.stats
        stats.compared += 1
        error, bias = (100 * (tokens - actual) / actual for tokens in (counted.tokens, counted.admitted))
        stats.token_est_abs_err_pct += (abs(error) - stats.token_est_abs_err_pct) / stats.compared
        stats.token_est_bias_pct += (bias - stats.token_est_bias_pct) / stats.compared
        if counted.source != OWN or not _whole(backend):
            entry.calibrations[counted.source != GUESS].learn(counted.bare, actual)

    def counter(self, backend: LLMBackend) -> tuple[Count, bool]:
        """(what counts a text of this model at once, whether exactly)."""
        if backend.capabilities.exact_counts:
            return lambda text: count(backend, text), True
        entry = self._entry(backend)
        if (tokenizer := entry.tokenizer) is not None:
            return lambda text: _counted(tokenizer.count(text), "the tokenizer"), True
        slope = entry.calibrations[False].slope
        return lambda text: round(slope * count(backend, text)), False

    async def warm(self, backend: LLMBackend) -> None:
        """Load what this backend's prompts are counted by, if it has to be loaded, and wait for it."""
        entry = self._entry(backend)
        if backend.capabilities.exact_counts or not isinstance(backend, LoadsTokenizer) or entry.tokenizer is not None:
            return
        await self._load(backend, entry, None)

    async def close(self) -> None:
        """Wait for no tokenizer any more, and forget all of them."""
        loading = [entry.loading for entry in self._entries.values() if entry.loading is not None]
        self._entries.clear()
        for each in loading:
            await each.leave()

    # --- how a backend without exact counts is counted ------------------------------------------

    async def _foreign(
        self, backend: LLMBackend, entry: _Entry, request: LLMRequest, heard: str
    ) -> tuple[int, int, str]:
        if (tokenizer := await self._tokenizer(backend, entry)) is not None:
            try:
                whole = _counted(tokenizer.count(request.system + request.prompt), "the tokenizer")
                return whole, _counted(tokenizer.count(heard), "the tokenizer") if heard else 0, LOADED
            except Exception as error:  # noqa: BLE001 - a plugin's edge: a tokenizer that fails is none
                self._rest(entry, LOADED, error)
                entry.tokenizer = None
        if (answer := await self._asked(backend, entry, request, heard)) is not None:
            return (*answer, SERVER)
        return _own(backend, request), count(backend, heard) if heard else 0, GUESS

    async def _tokenizer(self, backend: LLMBackend, entry: _Entry) -> Tokenizer | None:
        if entry.tokenizer is None and isinstance(backend, LoadsTokenizer) and not self._resting(entry, LOADED):
            await self._load(backend, entry, self._load_s)
        return entry.tokenizer

    async def _load(self, backend: LLMBackend, entry: _Entry, most_s: float | None) -> None:
        """Wait for what is being loaded, which goes on when nobody waits any more."""
        assert isinstance(backend, LoadsTokenizer)
        loading = entry.loading
        if loading is None:
            work = backend.load_tokenizer
            loading = InThread(work, "apex-tokenizer") if self._effects is None else OnLoop(work, self._effects)
            entry.loading = loading
        await loading.wait(most_s)
        if not loading.over or entry.loading is not loading:
            return
        entry.loading = None
        if loading.value is None:
            self._rest(entry, LOADED, loading.error or BackendError("load_tokenizer gave none"))
        elif self._entry(backend) is entry:  # the pool was not closed meanwhile
            entry.tokenizer = loading.value
            entry.stats.loads += 1
            self._entries.move_to_end(backend.capabilities.model_id)
            self._drop()

    async def _asked(
        self, backend: LLMBackend, entry: _Entry, request: LLMRequest, heard: str
    ) -> tuple[int, int] | None:
        if not isinstance(backend, CountsTokens) or self._resting(entry, SERVER):
            return None
        texts = [request.system + request.prompt, *([heard] if heard else [])]
        try:
            async with asyncio.timeout(self._count_s):
                counts: Sequence[int] = await bounded(backend.count_batch(texts))
            if len(counts) != len(texts):
                raise BackendError(f"the server counted {len(counts)} of {len(texts)} texts")
            return _counted(counts[0], "the server"), _counted(counts[-1], "the server") if heard else 0
        except Exception as error:  # noqa: BLE001 - a plugin's edge: without the server's count the next in order serves
            self._rest(entry, SERVER, error)
            return None

    def _rest(self, entry: _Entry, source: str, error: Exception) -> None:
        _log.warning("no count by %s: %s", source, error or type(error).__name__)
        entry.rests_until[source] = asyncio.get_running_loop().time() + AGAIN_S

    def _resting(self, entry: _Entry, source: str) -> bool:
        return asyncio.get_running_loop().time() < entry.rests_until.get(source, 0.0)

    def _entry(self, backend: LLMBackend) -> _Entry:
        name = backend.capabilities.model_id
        entry = self._entries.get(name)
        if entry is None:
            entry = self._entries[name] = _Entry(self.stats.setdefault(name, TokenizerStats()))
        elif entry.tokenizer is not None:
            self._entries.move_to_end(name)
        return entry

    def _drop(self) -> None:
        """Keep the tokenizers last used; what was learned about the others stays."""
        loaded = [entry for entry in self._entries.values() if entry.tokenizer is not None]
        for entry in loaded[: -self._most]:
            entry.tokenizer = None
            self.evicted += 1

    def _now_ms(self) -> float:
        return self._clock.monotonic() * 1000 if self._clock is not None else 0.0


def _whole(backend: LLMBackend) -> bool:
    """Whether its own count of a prompt is all that the model will report."""
    return not backend.capabilities.is_llm or isinstance(backend, CountsRequests)


async def _ahead(backend: CountsAhead, request: LLMRequest, heard: str) -> None:
    try:
        await bounded(backend.count_ahead(request, *([heard] if heard else [])))
    except BackendError:
        raise
    except Exception as error:  # a plugin's edge: a broken tokenizer is a failed backend
        raise BackendError(f"count_ahead failed: {type(error).__name__}: {error}") from error


def _own(backend: LLMBackend, request: LLMRequest) -> int:
    if isinstance(backend, CountsRequests):
        try:
            return _counted(backend.count_request(request), "count_request")
        except ApexError:
            raise
        except Exception as error:  # a plugin's edge: a broken tokenizer is a failed backend
            raise BackendError(f"count_request failed: {type(error).__name__}: {error}") from error
    return count(backend, request.system + request.prompt)


def _counted(tokens: object, who: str) -> int:
    if type(tokens) is not int or tokens < 0:
        raise BackendError(f"{who} answered {tokens!r}")
    return tokens
