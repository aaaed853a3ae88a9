"""Whose count is believed, in which order; that it is near the truth, and what is admitted above it."""

from __future__ import annotations

import asyncio
import random
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apex_budgets.episode import EpisodeScope
from apex_framework import timeloop
from apex_framework.budget import Guard, Ledger
from apex_framework.errors import BackendError
from apex_framework.events import CallSettled
from apex_framework.interfaces import CallTags, LLMCapabilities, LLMRequest, LLMResult, Tokenizer
from apex_framework.interfaces.counting import approximate_tokens
from apex_framework.ports import LoopClock, VirtualEffects
from apex_framework.services import LLMService, TokenizerPool
from apex_framework.services.calibration import Calibration
from apex_framework.services.tokenizers import AGAIN_S, GUESS, LOADED, OWN, SERVER
from apex_framework.testing.broken.llm_backend import RuleOfFour
from apex_framework.testing.scripted import ScriptedBackend, rule_of_four

REQUEST = LLMRequest("p" * 399, 10)


class Model(ScriptedBackend):
    """A real model, as far as anybody can tell: templates, and counts that may be estimates."""

    def __init__(self, *, model_id: str = "model", exact: bool = False, template: int = 0) -> None:
        super().__init__("ok", model_id=model_id)
        self._capabilities = LLMCapabilities(model_id, 100_000, deterministic=False, exact_counts=exact)
        self.template = template

    def real(self, text: str) -> int:
        return rule_of_four(text)

    async def generate(self, request: LLMRequest) -> LLMResult:
        result = await super().generate(request)
        return replace(result, tokens_in=self.real(request.system + request.prompt) + self.template)


class Loads(Model):
    """Its tokenizer can be loaded, unless something is wrong."""

    loads = 0
    takes_s = 0.0
    wrong: Exception | None = None

    def load_tokenizer(self) -> Tokenizer:
        self.loads += 1
        if self.wrong is not None:
            raise self.wrong
        return RuleOfFour()


class Asks(Model):
    """Its server counts."""

    asked = 0
    answer: Any = None

    async def count_batch(self, texts: Sequence[str]) -> Sequence[int]:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer == "never":
            await asyncio.sleep(3_600)
        return [rule_of_four(text) for text in texts] if self.answer is None else self.answer


class Both(Loads, Asks):
    """First the one, then the other."""


def pool(**options: Any) -> TokenizerPool:
    return TokenizerPool(effects=VirtualEffects(), **options)


def on(work: Any) -> Any:
    return timeloop.run(work())


def test_own_counts_come_first_and_nothing_is_awaited() -> None:
    tokenizers = pool()
    counting = tokenizers.count(ScriptedBackend(), REQUEST, "m" * 39)
    with pytest.raises(StopIteration) as done:
        counting.send(None)
    counted = done.value.value
    assert (counted.tokens, counted.admitted, counted.heard, counted.source, counted.margin) == (100, 100, 10, OWN, 1.0)


def test_the_order_is_tokenizer_server_guess() -> None:
    async def work() -> None:
        tokenizers = pool()
        for backend, source in ((Both(), LOADED), (Asks(model_id="asks"), SERVER), (Model(model_id="bare"), GUESS)):
            counted = await tokenizers.count(backend, REQUEST, "m" * 39)
            assert (counted.source, counted.bare, counted.heard) == (source, 100, 10)

    on(work)


def test_a_tokenizer_is_loaded_once_however_many_ask() -> None:
    async def work() -> None:
        tokenizers, backend = pool(), Loads()
        counted = await asyncio.gather(*(tokenizers.count(backend, REQUEST) for _ in range(20)))
        assert {c.source for c in counted} == {LOADED} and backend.loads == 1
        assert tokenizers.stats["model"].loads == 1 and tokenizers.stats["model"].counts == 20
        await tokenizers.close()

    on(work)


def test_the_least_recently_used_tokenizer_is_dropped_and_loaded_again() -> None:
    async def work() -> None:
        tokenizers = pool(most=2)
        models = [Loads(model_id=name) for name in "abc"]
        for backend in (models[0], models[1], models[0], models[2]):
            await tokenizers.count(backend, REQUEST)
        assert tokenizers.evicted == 1
        for backend in models:
            await tokenizers.count(backend, REQUEST)
        assert [backend.loads for backend in models] == [1, 2, 2] and tokenizers.evicted == 3

    on(work)


def test_a_tokenizer_that_fails_is_replaced_and_tried_again_later() -> None:
    async def work() -> None:
        tokenizers, backend = pool(), Both()
        backend.wrong = BackendError("no such file")
        for _ in range(3):
            assert (await tokenizers.count(backend, REQUEST)).source == SERVER
        assert backend.loads == 1
        backend.wrong = None
        await asyncio.sleep(AGAIN_S + 1)
        assert (await tokenizers.count(backend, REQUEST)).source == LOADED

    on(work)


@pytest.mark.parametrize("answer", ["never", BackendError("500"), KeyError("bug"), [], [1], [1, -1], ["x", "y"], 7])
def test_a_server_that_cannot_count_is_left_alone_for_a_while(answer: object) -> None:
    async def work() -> None:
        tokenizers, backend = pool(), Asks()
        backend.answer = answer
        loop = asyncio.get_running_loop()
        assert (await tokenizers.count(backend, REQUEST, "heard")).source == GUESS
        assert loop.time() <= 1.0
        assert (await tokenizers.count(backend, REQUEST, "heard")).source == GUESS and backend.asked == 1
        backend.answer = None
        await asyncio.sleep(AGAIN_S + 1)
        assert (await tokenizers.count(backend, REQUEST, "heard")).source == SERVER

    on(work)


def test_a_load_that_takes_too_long_is_not_waited_for_and_still_serves_later() -> None:
    class Slow:
        async def run(self, work: Any, *, cost: Any) -> Any:
            await asyncio.sleep(60)
            return work()

    async def work() -> None:
        tokenizers, backend = TokenizerPool(effects=Slow()), Loads()
        loop = asyncio.get_running_loop()
        assert (await tokenizers.count(backend, REQUEST)).source == GUESS and loop.time() == 5.0
        await tokenizers.warm(backend)
        assert loop.time() == 60.0
        assert (await tokenizers.count(backend, REQUEST)).source == LOADED and backend.loads == 1
        other = Loads(model_id="other")
        waiting = asyncio.create_task(tokenizers.count(other, REQUEST))
        await asyncio.sleep(1)
        waiting.cancel()
        await tokenizers.close()
        assert asyncio.all_tasks() == {asyncio.current_task()} or waiting.cancelled()

    on(work)


@pytest.mark.parametrize(("exact", "template"), [(True, 0), (True, 23), (False, 0), (False, 23)])
def test_what_is_admitted_is_never_below_what_is_reported(exact: bool, template: int) -> None:
    async def work() -> None:
        backend = Model(exact=exact, template=template)
        clock, events = LoopClock(asyncio.get_running_loop()), list[Any]()
        guard = Guard(Ledger(), [EpisodeScope()], clock=clock)
        service = LLMService({"*": backend}, guard, clock=clock, on_event=events.append)
        tags = CallTags("r", "ep1", "a", "coder", 1_000_000)
        rng = random.Random(3)
        for _ in range(30):
            await service.generate(tags, LLMRequest("p" * rng.randint(200, 4_000), 10))
        settled = [event for event in events if isinstance(event, CallSettled)]
        assert all(event.reserved - 10 >= event.tokens_in for event in settled)
        late = settled[5:]
        errors = [abs(event.estimated_in - event.tokens_in) / event.tokens_in for event in late]
        assert statistics.mean(errors) <= 0.10
        stats = service.tokenizers.stats["model"]
        assert stats.compared == 30 and stats.source == (OWN if exact else GUESS)
        if not exact:
            assert all(event.reserved - 10 >= 1.1 * event.tokens_in for event in late)
            assert stats.token_est_bias_pct >= 10.0

    on(work)


@given(st.lists(st.tuples(st.integers(1, 5_000), st.floats(0.5, 1.9)), min_size=8, max_size=40), st.integers(0, 60))
def test_margins_follow_the_worst_that_was_seen(seen: list[tuple[int, float]], template: int) -> None:
    calibration = Calibration(exact=False)
    for counted, ratio in seen:
        calibration.learn(counted, max(1, round(ratio * counted) + template))
        assert calibration.admitted(counted) >= 1.1 * calibration.raw(counted)


def test_counting_has_the_deadline_of_its_call_and_can_be_cancelled() -> None:
    class Stuck(Model):
        async def count_ahead(self, request: LLMRequest, *texts: str) -> None:
            await asyncio.sleep(3_600)

    async def work() -> None:
        loop = asyncio.get_running_loop()
        clock, ledger = LoopClock(loop), Ledger()
        guard = Guard(ledger, [EpisodeScope()], clock=clock)
        service = LLMService({"*": Stuck(exact=True)}, guard, clock=clock, deadline_s=2.0)
        tags = CallTags("r", "ep1", "a", "coder", 10_000)
        answer = await service.generate(tags, REQUEST)
        assert str(answer.failure) == "total_timeout" and loop.time() <= 2.25 and ledger.entries == ()
        call = asyncio.create_task(service.generate(tags, replace(REQUEST, request_id="call")))
        await asyncio.sleep(0.5)
        assert service.cancel("call")
        assert str((await call).failure) == "cancelled" and loop.time() <= 3.0 and ledger.entries == ()

    on(work)


def test_an_untrue_report_teaches_nothing() -> None:
    class Liar(Model):
        def real(self, text: str) -> int:
            return 1

    async def work() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        service = LLMService({"*": Liar()}, Guard(Ledger(), [EpisodeScope()], clock=clock), clock=clock)
        answer = await service.generate(CallTags("r", "ep1", "a", "coder", 10_000), REQUEST)
        assert answer.tokens_in == 100
        assert service.tokenizers.stats["model"].compared == 0 and service.stats.disbelieved == 1

    on(work)


# --- against a byte-pair vocabulary -----------------------------------------------------------

SPLIT = re.compile(r" ?[A-Za-z]+| ?[0-9]| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+")


class BytePairs:
    """A byte-pair tokenizer, trained here: the most frequent pair within words is merged, again and again.

    (Sennrich et al., ACL 2016, over bytes.)
    """

    def __init__(self, text: str, merges: int) -> None:
        words = {
            word: (tuple(word.encode()[i : i + 1] for i in range(len(word.encode()))), n)
            for word, n in Counter(SPLIT.findall(text)).items()
        }
        self.ranks: dict[tuple[bytes, bytes], int] = {}
        for rank in range(merges):
            pairs: Counter[tuple[bytes, bytes]] = Counter()
            for parts, n in words.values():
                for pair in pairwise(parts):
                    pairs[pair] += n
            best = max(pairs, key=lambda pair: (pairs[pair], pair))
            self.ranks[best] = rank
            for word, (parts, n) in words.items():
                if best[0] in parts:
                    words[word] = (_merged(parts, best), n)
        self._known: dict[str, int] = {}

    def count(self, text: str) -> int:
        return sum(self._word(word) for word in SPLIT.findall(text))

    def _word(self, word: str) -> int:
        if word not in self._known:
            parts: tuple[bytes, ...] = tuple(word.encode()[i : i + 1] for i in range(len(word.encode())))
            while True:
                found = [pair for pair in pairwise(parts) if pair in self.ranks]
                if not found:
                    break
                parts = _merged(parts, min(found, key=self.ranks.__getitem__))
            self._known[word] = len(parts)
        return self._known[word]


def _merged(parts: tuple[bytes, ...], pair: tuple[bytes, bytes]) -> tuple[bytes, ...]:
    out, i = [], 0
    while i < len(parts):
        if parts[i : i + 2] == pair:
            out.append(pair[0] + pair[1])
            i += 2
        else:
            out.append(parts[i])
            i += 1
    return tuple(out)


def prompts(seed: int, count: int) -> list[str]:
    """Pieces of code and of prose: what a team's prompts are made of."""
    library = Path(random.__file__).parent
    code = [(library / f"{name}.py").read_text() for name in ("heapq", "textwrap", "shlex", "fractions", "bisect")]
    rng, found = random.Random(seed), []
    for _ in range(count):
        text = rng.choice(code)
        start = rng.randrange(max(1, len(text) - 3_000))
        found.append(
            f"Find the fault in this module and answer with an edit.\n{text[start : start + rng.randint(600, 3_000)]}"
        )
    return found


@pytest.fixture(scope="module")
def vocabulary() -> BytePairs:
    library = Path(random.__file__).parent
    text = "".join((library / f"{name}.py").read_text() for name in ("difflib", "random", "string"))
    return BytePairs(text, 400)


def test_a_calibrated_guess_is_within_ten_percent_and_admitted_above_it(vocabulary: BytePairs) -> None:
    calibration = Calibration(exact=False)
    errors, biases = [], []
    for number, prompt in enumerate(prompts(1, 80)):
        counted, actual = approximate_tokens(prompt), vocabulary.count(prompt) + 12
        if number >= 10:
            errors.append(abs(calibration.raw(counted) - actual) / actual)
            biases.append((calibration.admitted(counted) - actual) / actual)
        calibration.learn(counted, actual)
    assert statistics.mean(errors) <= 0.10
    assert statistics.mean(biases) >= 0.10 and sum(bias < 0 for bias in biases) <= len(biases) / 50


@given(st.text(max_size=200), st.integers(0, 200))
def test_a_guess_never_falls_with_more_text(text: str, cut: int) -> None:
    assert 0 <= approximate_tokens(text[:cut]) <= approximate_tokens(text) + 1
    assert (approximate_tokens(text) == 0) == (text == "")
