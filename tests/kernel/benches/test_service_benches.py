"""Benches of models and of the service: whom they ask, what they exclude, what they say of what they cannot measure."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from apex_framework import benches, services
from apex_framework.benches import first_byte, misbehaviours, models, multi_scope, pooling, promises, tokenizer, tokens
from apex_framework.benches.numbers import Answer, Found, Promise
from apex_framework.benches.paired import at, median_interval
from apex_framework.benches.promises import judged
from apex_framework.benches.service_numbers import SERVICE
from apex_framework.cli.boundary import run
from apex_framework.errors import BackendError, ConfigError, Failure
from apex_framework.interfaces import LLMResult
from apex_framework.testing.servers import Model, OpenAIServer

FORM = {"bench", "case", "contender", "metric", "value", "unit"}
http = pytest.mark.skipif(importlib.util.find_spec("aiohttp") is None, reason="the extra [http] is not installed")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with OpenAIServer(Model(answer="Monday Tuesday", context_tokens=4096)) as running:
        monkeypatch.setenv("APEX_OPENAI_BASE_URL", f"{running.url}/v1")
        yield running


def asked(running: OpenAIServer) -> list[dict[str, Any]]:
    return [request.json() for request in running.requests if request.method == "POST"]


# --- whom they ask --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "roles"),
    [
        ("repair", {"*": "repair"}),
        ("ollama:qwen2.5-coder:7b", {"*": "ollama:qwen2.5-coder:7b"}),
        ("coder=ollama:qwen:7b, *=llama_cpp", {"coder": "ollama:qwen:7b", "*": "llama_cpp"}),
        ("coder=openai:x", {"coder": "openai:x"}),
    ],
)
def test_a_backend_for_all_or_per_role(text: str, roles: dict[str, str]) -> None:
    assert models.chosen(text) == roles


@pytest.mark.parametrize("text", ["", ",", "coder=", "=x", "coder=a,coder=b", "a,b"])
def test_a_backend_that_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="names no backend"):
        models.chosen(text)


def test_without_a_word_it_is_what_a_run_would_take(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("APEX_BACKEND", "APEX_LLM_BACKEND", "HERMES_BACKEND", "APEX_GGUF_MODEL_PATH"):
        monkeypatch.delenv(name, raising=False)
    assert models.chosen(None) == {"*": "repair"}
    monkeypatch.setenv("APEX_GGUF_MODEL_PATH", "/models/tiny.gguf")
    assert models.chosen(None) == {"*": "llama_cpp"}
    monkeypatch.setenv("APEX_BACKEND", "scripted")
    assert models.chosen(None) == {"*": "scripted"}


# --- tokens ---------------------------------------------------------------------------------------


def test_tokens_says_that_it_was_no_model() -> None:
    first, *rows = tokens.run(SimpleNamespace(backend="scripted", n=4))
    assert first["is_llm"] is False and first["latency"] == "declared" and "no language model" in str(first["case"])
    assert all(set(row) == FORM for row in rows)
    assert {row["metric"] for row in rows} >= {
        "calls that failed",
        "latency p50",
        "latency p99",
        "first token p50",
        "aggregate, sum of concurrent rates",
        "aggregate, wall clock",
    }


@http
def test_tokens_excludes_the_first_five_calls_and_counts_the_others(server: OpenAIServer) -> None:
    first, *rows = tokens.run(SimpleNamespace(backend="openai:tiny", n=7, concurrent=3, seed=11))
    calls = asked(server)
    assert len(calls) == tokens.WARM_UP + 7
    prompts = [str(call["messages"]) for call in calls]
    assert len(set(prompts)) == len(prompts) and all("11." in prompt for prompt in prompts)
    found = {str(row["metric"]): row["value"] for row in rows}
    assert found["calls that failed"] == 0
    assert found["tokens generated"] == 7 * 5, "of three letters each"
    assert (first["is_llm"], first["model_id"], first["seed"]) == (True, "tiny", 11)
    assert {row["case"] for row in rows} == {"7 calls, 3 at a time"}


@http
def test_tokens_with_the_same_seed_asks_the_same(server: OpenAIServer) -> None:
    for _ in range(2):
        list(tokens.run(SimpleNamespace(backend="openai:tiny", n=4, concurrent=1, seed=3)))
    calls = asked(server)
    half = len(calls) // 2
    assert calls[:half] == calls[half:]
    list(tokens.run(SimpleNamespace(backend="openai:tiny", n=4, concurrent=1, seed=4)))
    assert asked(server)[2 * half :] != calls[:half]


@http
def test_tokens_measures_each_role_by_its_own_backend(server: OpenAIServer) -> None:
    rows = list(tokens.run(SimpleNamespace(backend="coder=openai:tiny,critic=scripted", n=6, concurrent=2)))
    assert {row["contender"] for row in rows} == {"openai:tiny", "scripted", "openai:tiny, scripted"}
    assert len(asked(server)) >= tokens.WARM_UP + 1


@http
def test_tokens_of_a_backend_that_cannot_answer_is_an_error(server: OpenAIServer) -> None:
    with pytest.raises(BackendError, match="all of its first 5 calls failed") as told:
        list(tokens.run(SimpleNamespace(backend="openai:other", n=3)))
    assert told.value.kind is Failure.NOT_FOUND


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["tokens", "--backend", "coder="], 2, "names no backend"),
        (["tokens", "--backend", "nonsense"], 2, "unknown llm backend"),
        (["tokens", "--concurrent", "0"], 2, "Invalid value for '--concurrent'"),
        (["first_byte", "--backend", "repair", "-n", "1"], 2, "declares how long its calls take"),
        (["pooling", "--backend", "scripted", "-n", "1"], 2, "takes no option 'pooling'"),
        (["budget", "--backend", "repair"], 2, "bench budget has no option --backend"),
        (["promises", "--of", "others"], 2, "Invalid value for '--of'"),
        (["promises", "--seeds", "3"], 2, "--seeds are those of bench overspend"),
    ],
)
def test_wrong_use_is_one_line(arguments: list[str], code: int, says: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", *arguments]) == code
    out, err = capfd.readouterr()
    assert out == "" and says in err and err.count("\n") <= 2


# --- the others -----------------------------------------------------------------------------------


@http
def test_first_byte_compares_with_a_bare_client_of_the_same_server() -> None:
    rows = list(first_byte.run(SimpleNamespace(n=2)))
    assert all(set(row) == FORM for row in rows)
    assert {row["contender"] for row in rows if "vLLM" in str(row["case"])} == {"bare client", "backend", "apex"}
    assert {"added, median", "added, median, from", "added, p95"} <= {row["metric"] for row in rows}


@http
def test_first_byte_of_a_backend_of_ones_own(server: OpenAIServer) -> None:
    rows = list(first_byte.run(SimpleNamespace(n=2, backend="openai:tiny")))
    assert {row["contender"] for row in rows} == {"backend", "apex"}


@http
def test_pooling_of_a_backend_of_ones_own_and_every_request(server: OpenAIServer) -> None:
    rows = list(pooling.run(SimpleNamespace(n=3, backend="openai:tiny", pooling="on", singly=True)))
    single = [row for row in rows if row["metric"] == "request"]
    assert len(single) == 3 and all(float(str(row["pool_acquire_ms"])) >= 0 for row in single)
    assert any("pool_conn_in_use" in str(row["metric"]) and float(str(row["value"])) >= 1 for row in rows)
    assert {row["case"] for row in rows} == {"openai:tiny"}


def test_estimates_are_counted_before_they_are_learned_from() -> None:
    texts = ["word " * 40] * 6
    found = asyncio.run(tokenizer._estimated(texts, lambda text: 100))
    assert found[0][0] == 50 and found[-1][0] == 100
    assert all(admitted >= tokens for tokens, admitted, _ in found)


def test_errors_and_bias_are_those_of_the_texts() -> None:
    rows = {row["metric"]: row["value"] for row in tokenizer._errors("case", "real", [(90, 120, 100)] * 12)}
    assert rows["error, mean"] == 10 and rows["bias, mean"] == 20 and rows["reserved too little"] == 0
    assert rows["histogram: error 10 to 20 %"] == 12
    assert sum(int(str(value)) for metric, value in rows.items() if str(metric).startswith("histogram")) == 12


def test_a_tokenizer_in_python_joins_by_rank(tmp_path: Any) -> None:
    path = tmp_path / "merges.json"
    path.write_text('[["a", "b"], ["ab", "c"]]')
    count = tokenizer._Merging(path).count
    assert (count("abc"), count("abcab"), count("cba"), count("")) == (1, 2, 3, 0)


@http
def test_misbehaviours_are_found_as_promised() -> None:
    rows = {str(row["metric"]): row["value"] for row in misbehaviours.run(SimpleNamespace(n=3))}
    assert rows["kinds"] == rows["kinds as promised"] == 3


@http
def test_a_service_that_takes_a_refusal_for_an_answer_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Credulous(services.LLMService):
        async def generate(self, *args: Any, **options: Any) -> LLMResult:  # type: ignore[override]  # the planted bug
            await super().generate(*args, **options)
            return LLMResult("fine", 0, 0)

    monkeypatch.setattr(services, "LLMService", Credulous)
    rows = list(misbehaviours.run(SimpleNamespace(n=1)))
    told = [str(row["case"]) for row in rows if row["metric"] == "not as promised"]
    assert told and all("taken for an answer" in case for case in told)
    assert next(row["value"] for row in rows if row["metric"] == "kinds as promised") == 0


def test_the_median_lies_in_its_interval() -> None:
    values = [float(n) for n in range(31)]
    low, high = median_interval(values)
    assert low == 9 and high == 21
    assert median_interval([3.0, 1.0, 2.0]) == (1.0, 3.0) and median_interval([4.0]) == (4.0, 4.0)
    assert at(values, 50) == 15 and at(values, 99) == 30 and at([7.0], 95) == 7


# --- the table ------------------------------------------------------------------------------------


def test_every_number_of_the_table_has_a_row() -> None:
    said = " ".join(promise.what for promise in SERVICE)
    for what in ("first byte", "reserve", "calls/s", "overspending", "pool", "tokenizer", "plan cache", "misbehav"):
        assert what in said
    assert "instances" in said and len({promise.what for promise in SERVICE}) == len(SERVICE)


def test_its_benches_are_there_and_read_what_they_are_given() -> None:
    there = set(benches.names())
    for promise in SERVICE:
        assert promise.bench in there, promise.bench
    for name, given in promises.SERVICE_SHORT.items():
        assert set(given) <= benches.options(name), name


def test_what_is_not_installed_is_said_with_its_remedy() -> None:
    def judge(found: Found) -> Answer:
        return Answer("", True, found.value("ratio"))

    missing = {"case": "x", "contender": "llama_cpp", "metric": "not installed", "value": 1.0}
    row = judged(Promise("w", "-", "-", "instances", judge, "metal"), [missing])
    assert row["met"] == "not measured"
    assert row["measured"] == "llama_cpp is not installed: pip install 'apex-framework[metal]'"


def test_episodes_take_turns_and_the_first_pair_does_not_count() -> None:
    order: list[tuple[str, int]] = []
    off, on = multi_scope._in_turns(lambda n: order.append(("off", n)), lambda n: order.append(("on", n)), 2)
    assert order == [("off", 0), ("on", 0), ("on", 1), ("off", 1), ("off", 2), ("on", 2)]
    assert len(off) == len(on) == 2
    rows = {row["metric"]: row["value"] for row in multi_scope._rows("case", [100.0] * 7, [103.0] * 7)}
    assert rows["regression"] == rows["regression, from"] == 3.0


@pytest.mark.slow
def test_an_episode_under_four_scopes_is_the_same_episode() -> None:
    rows = list(multi_scope.run(SimpleNamespace(n=1)))
    assert {row["case"] for row in rows} == {"default team, mini/dev", "framework alone, 200 calls"}
    assert all(float(str(row["value"])) > 0 for row in rows if row["unit"] == "ms")
