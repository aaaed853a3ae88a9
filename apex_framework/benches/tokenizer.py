"""What a pool of tokenizers saves, and how good the count is where no tokenizer can be had.

``cold`` is a new pool, which loads the tokenizer and counts; ``warm`` is the same count by a pool that has it. The
tokenizer is real and is loaded from a file: one of the package ``tokenizers``, trained on the spot on this package's own
text; where that is not installed, byte-pair encoding in plain Python over a vocabulary that was trained the same way.

``estimate`` is the count by bytes that backends without a tokenizer begin with, calibrated by what the model reports, here by
the real tokenizer and by the solver's own. Every text is counted first and learned from afterwards, so that no text
teaches its own estimate: the prompts of real episodes, as a model sees them one after the other; and, harder, issues, issues
with code and modules of the same tasks in a shuffled mixture. ``error`` is that of the estimate, without its sign;
``bias`` that of what is reserved.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import random
import re
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Final

from ..interfaces import LLMCapabilities, LLMRequest, LLMResult, Tokenizer
from .paired import at

COUNTS, COLD, TASKS, EPISODES = 200, 15, 16, 12
VOCABULARY: Final = 2_000
BYTES_PER_TOKEN: Final = 4.0
BINS: Final = (1, 2, 5, 10, 20, 50)
LEARNED: Final = 10
"""Texts after which a calibration has something to go by."""
PROMPT: Final = "Find the fault in this function and say what it should do instead. " * 15
_WORDS = re.compile(r" ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+")

Row = dict[str, object]


def run(args: Any = None) -> Iterator[Row]:
    """Rows of bench ``tokenizer``. ``args.n`` warm counts; ``args.seed`` shuffles the texts."""
    counts, seed = int(getattr(args, "n", None) or COUNTS), int(getattr(args, "seed", None) or 0)
    with tempfile.TemporaryDirectory() as folder:
        name, load = _trained(Path(folder))
        yield from _speed(name, *asyncio.run(_timed(load, counts)))
        contenders = {name: load().count, "repair": _repair()}
    prompts, texts = _prompts(seed), _texts(seed)
    for name, real in contenders.items():
        case = f"{len(prompts)} prompts of {EPISODES} episodes"
        yield from _errors(case, name, asyncio.run(_estimated(prompts, real)))
    for name, real in contenders.items():
        yield from _errors(f"mixture of {len(texts)} texts", name, asyncio.run(_estimated(texts, real)))


# --- the tokenizers -----------------------------------------------------------------------------


def _trained(folder: Path) -> tuple[str, Callable[[], Tokenizer]]:
    """The name of a real tokenizer, and what loads it from its file."""
    from ..testing.gguf import own_text, train

    path = folder / "tokenizer.json"
    if importlib.util.find_spec("tokenizers") is None:
        path.write_text(json.dumps(train(own_text(), 500).merges), encoding="utf-8")
        return "Python", lambda: _Merging(path)
    from tokenizers import ByteLevelBPETokenizer  # type: ignore[import-not-found,unused-ignore]  # not in every extra

    learner = ByteLevelBPETokenizer()
    learner.train_from_iterator([own_text()], vocab_size=VOCABULARY, show_progress=False)
    learner.save(str(path))
    return "tokenizers", lambda: _Package(path)


class _Package:
    """A tokenizer of the package ``tokenizers``."""

    def __init__(self, path: Path) -> None:
        from tokenizers import Tokenizer as Whole

        self._whole = Whole.from_file(str(path))

    def count(self, text: str) -> int:
        return len(self._whole.encode(text).ids)


class _Merging:
    """Byte-pair encoding by ranks of merges, as GPT-2 has it."""

    def __init__(self, path: Path) -> None:
        from ..testing.gguf import byte_letters

        ranks = {(a, b): rank for rank, (a, b) in enumerate(json.loads(path.read_text(encoding="utf-8")))}
        letters = byte_letters()

        @lru_cache(maxsize=1 << 14)
        def pieces(word: str) -> int:
            parts = [letters[byte] for byte in word.encode(errors="surrogatepass")]
            while len(parts) > 1:
                pairs = [(ranks.get(pair, len(ranks)), place) for place, pair in enumerate(pairwise(parts))]
                rank, place = min(pairs)
                if rank == len(ranks):
                    break
                parts[place : place + 2] = [parts[place] + parts[place + 1]]
            return len(parts)

        self._pieces = pieces

    def count(self, text: str) -> int:
        return sum(map(self._pieces, _WORDS.findall(text)))


def _repair() -> Callable[[str], int]:
    from ..plugins import load_plugins

    count: Callable[[str], int] = load_plugins(safe_mode=True).catalog.make("llm_backend", "repair").count_tokens
    return count


class _Backend:
    """A backend of a model without exact counts; with ``load``, one whose tokenizer can be loaded here."""

    def __init__(self, name: str) -> None:
        self.capabilities = LLMCapabilities(name, 1_000_000, deterministic=False, exact_counts=False)

    def count_tokens(self, text: str) -> int:
        return -int(-len(text.encode(errors="surrogatepass")) // BYTES_PER_TOKEN)

    async def generate(self, request: LLMRequest) -> LLMResult:
        return LLMResult("", 0, 0)

    async def close(self) -> None:
        """Nothing is held."""


class _Loading(_Backend):
    def __init__(self, name: str, load: Callable[[], Tokenizer]) -> None:
        super().__init__(name)
        self.load_tokenizer = load


# --- how fast -----------------------------------------------------------------------------------


async def _timed(load: Callable[[], Tokenizer], counts: int) -> tuple[list[float], list[float]]:
    """Microseconds of a count by a pool that has to load first, and by one that has loaded."""
    from ..services import TokenizerPool

    load()  # the package's own import is nobody's cold start
    backend, request, cold, warm = _Loading("bench", load), LLMRequest(PROMPT, 1), [], []
    for _ in range(COLD):
        pool = TokenizerPool()
        began = perf_counter_ns()
        await pool.count(backend, request)
        cold.append((perf_counter_ns() - began) / 1000)
        await pool.close()
    pool = TokenizerPool()
    await pool.count(backend, request)
    for _ in range(counts):
        began = perf_counter_ns()
        await pool.count(backend, request)
        warm.append((perf_counter_ns() - began) / 1000)
    await pool.close()
    return cold, warm


def _speed(name: str, cold: Sequence[float], warm: Sequence[float]) -> Iterator[Row]:
    case = "count 1 KB, tokenizer loaded from a file"
    for contender, times in (("cold", cold), ("warm", warm)):
        yield _row(case, f"{name}, {contender}", "p50", at(times, 50), "us")
        yield _row(case, f"{name}, {contender}", "p95", at(times, 95), "us")
    change = statistics.median(warm) / statistics.median(cold) - 1
    yield _row(case, "apex", "p50, warm against cold", 100 * change, "%")


# --- how well -----------------------------------------------------------------------------------


def _prompts(seed: int) -> list[str]:
    """What a model is asked in episodes of the default team, in their order."""
    from ..episode.arm import Arm
    from ..episode.episode import Episode
    from ..episode.workshop import Workshop
    from ..hookspecs import ApexSpec, hookimpl
    from ..interfaces import EpisodeJob
    from ..plugins import load_plugins

    asked: list[str] = []

    class Listening(ApexSpec):
        @hookimpl
        def apex_llm_backends(self, add: Any) -> None:
            add("bench_listening", lambda: _Listening(asked))

    plugins = load_plugins(environ={"APEX_PLUGINS": ""}, plugins=[Listening()])
    shop = Workshop(plugins, "mini", "dev", TASKS)
    try:
        for task in shop.suite.tasks("dev")[:EPISODES]:
            arm = Arm("bench", backends={"*": "bench_listening"})
            Episode(shop, arm, shop.task(task.id), EpisodeJob(0, arm.to_json(), task.id, seed)).run()
    finally:
        shop.close()
    return asked


class _Listening:
    """The solver, and everything that it is asked."""

    def __init__(self, asked: list[str]) -> None:
        from ..plugins import load_plugins

        self._solver = load_plugins(safe_mode=True).catalog.make("llm_backend", "repair")
        self._asked = asked
        self.capabilities = self._solver.capabilities

    def count_tokens(self, text: str) -> int:
        return int(self._solver.count_tokens(text))

    async def generate(self, request: LLMRequest) -> LLMResult:
        self._asked.append(request.system + request.prompt)
        answer: LLMResult = await self._solver.generate(request)
        return answer

    async def close(self) -> None:
        await self._solver.close()


def _texts(seed: int) -> list[str]:
    """Issues, issues with code, and modules of the suite's tasks, in an order of their own."""
    from ..episode.workshop import make_suite
    from ..plugins import load_plugins

    tasks = make_suite(load_plugins(safe_mode=True).catalog, "mini", TASKS).tasks("dev")[:TASKS]
    texts = []
    for task in tasks:
        code = "\n\n".join(task.files.values())
        texts += [task.issue, f"{task.issue}\n\n{code[:4_000]}", code[:20_000]]
    random.Random(seed).shuffle(texts)
    return [text for text in texts if text]


async def _estimated(texts: Sequence[str], real: Callable[[str], int]) -> list[tuple[int, int, int]]:
    """(estimate, what would be reserved, truth) of every text."""
    from ..services import TokenizerPool

    pool, backend, found = TokenizerPool(), _Backend("bench"), []
    for text in texts:
        counted, truth = await pool.count(backend, LLMRequest(text, 1)), real(text)
        found.append((counted.tokens, counted.admitted, truth))
        pool.learn(backend, counted, truth)
    await pool.close()
    return found


def _errors(case: str, name: str, found: Sequence[tuple[int, int, int]]) -> Iterator[Row]:
    errors = [100 * abs(tokens - truth) / truth for tokens, _, truth in found]
    biases = [100 * (admitted - truth) / truth for _, admitted, truth in found]
    learned = f", after the first {LEARNED}"
    yield _row(case, name, "error, mean", statistics.fmean(errors), "%")
    yield _row(case, name, f"error, mean{learned}", statistics.fmean(errors[LEARNED:]), "%")
    yield _row(case, name, f"error, p95{learned}", at(errors[LEARNED:], 95), "%")
    yield _row(case, name, "bias, mean", statistics.fmean(biases), "%")
    yield _row(case, name, f"bias, mean{learned}", statistics.fmean(biases[LEARNED:]), "%")
    yield _row(case, name, "reserved too little", sum(bias < 0 for bias in biases), "texts")
    for low, high in zip((0, *BINS), (*BINS, None), strict=True):
        inside = sum(low <= error and (high is None or error < high) for error in errors)
        bounds = f"{low} to {high} %" if high is not None else f"{low} % and more"
        yield _row(case, name, f"histogram: error {bounds}", inside, "texts")


def _row(case: str, contender: str, metric: str, value: float, unit: str) -> Row:
    return {
        "bench": "tokenizer",
        "case": case,
        "contender": contender,
        "metric": metric,
        "value": round(value, 3),
        "unit": unit,
    }
