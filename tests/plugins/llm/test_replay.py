"""A cassette gives back what was recorded, says exactly what it lacks, and keeps no secret."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest

from apex_framework import timeloop
from apex_framework.errors import BackendError, ConfigError, ModelError
from apex_framework.interfaces import LLMCapabilities, LLMRequest, LLMResult, LLMStatus
from apex_framework.testing.scripted import ScriptedBackend, rule_of_four
from apex_llm.cassette import call_hash, has_secret, text_hash
from apex_llm.replay import ReplayBackend

REQUEST = LLMRequest("What is wrong?", 20, system="You repair code.", seed=3, stop=("END",))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "cassette.jsonl"


def record(path, *requests, answers="fixed", counts=()):
    inner = ScriptedBackend(answers, model_id="model-x", latency_ms=12.0)

    async def work():
        backend = ReplayBackend(path, inner=inner)
        results = [await backend.generate(r) for r in requests]
        for text in counts:
            backend.count_tokens(text)
        await backend.close()
        return results

    return timeloop.run(work()) if inner.capabilities.deterministic else asyncio.run(work())


def replay(path, request=REQUEST):
    return timeloop.run(ReplayBackend(path).generate(request))


def test_what_was_recorded_comes_back(path):
    (result,) = record(path, REQUEST, counts=["some text"])
    backend = ReplayBackend(path)
    assert replay(path) == result == LLMResult("fixed", result.tokens_in, 2, LLMStatus.OK, latency_ms=12.0)
    assert backend.count_tokens("some text") == rule_of_four("some text")
    assert backend.capabilities == LLMCapabilities("model-x", 1_000_000, deterministic=True, is_llm=False)


def test_a_live_model_is_recorded_with_its_measured_latency_and_replays_deterministically(path):
    (result,) = record(path, REQUEST, answers=["once"])
    assert result.latency_ms > 0 and replay(path) == replay(path) == result


def test_a_recording_answers_itself_and_goes_on_later(path):
    other = LLMRequest("Another?", 20)
    assert len(set(record(path, REQUEST, REQUEST, answers=iter(["one", "two"])))) == 1
    again = record(path, REQUEST, other, answers=iter(["three"]))
    assert [r.text for r in again] == ["one", "three"]
    assert (replay(path).text, replay(path, other).text) == ("one", "three")


def test_a_miss_names_file_and_hash(path):
    record(path, REQUEST)
    missing = LLMRequest(REQUEST.prompt, 21, system=REQUEST.system, seed=3, stop=("END",))
    with pytest.raises(BackendError) as caught:
        replay(path, missing)
    assert str(path) in str(caught.value) and call_hash("model-x", missing) in str(caught.value)
    assert not caught.value.retryable
    with pytest.raises(BackendError, match=text_hash("never counted")):
        ReplayBackend(path).count_tokens("never counted")


@pytest.mark.parametrize(
    "changed",
    [
        {"prompt": "p"},
        {"max_tokens": 1},
        {"system": "s"},
        {"temperature": 0.5},
        {"top_p": 0.9},
        {"seed": 4},
        {"stop": ()},
    ],
)
def test_every_field_but_the_request_id_is_part_of_the_hash(changed):
    fields = {"prompt": "a", "max_tokens": 20, "system": "b", "seed": 3, "stop": ("END",)}
    one = call_hash("m", LLMRequest(**fields, request_id="c1"))
    assert one == call_hash("m", LLMRequest(**fields, request_id="c2")) != call_hash("n", LLMRequest(**fields))
    assert one != call_hash("m", LLMRequest(**{**fields, **changed}))


def test_the_hash_is_the_same_everywhere():
    assert call_hash("m", LLMRequest("Grüße", 1)) == "7d4401492335e6d6d52d2cfae6d2c5bf63d1e99bf29629f4f4146197cb1f2774"


def test_prompts_are_not_kept(path):
    record(path, REQUEST)
    assert "wrong" not in path.read_text() and "repair" not in path.read_text()


@pytest.mark.parametrize(
    "secret",
    [
        "sk-abcdefghijklmnopqrstuvwx",
        "ghp_" + "a1" * 18,
        "AKIAABCDEFGHIJKLMNOP",
        "-----BEGIN RSA PRIVATE KEY-----",
        "hunter2-hunter2",
    ],
)
def test_answers_that_hold_a_secret_are_passed_on_but_not_kept(path, secret, monkeypatch, caplog):
    monkeypatch.setenv("SERVICE_PASSWORD", "hunter2-hunter2")
    (result,) = record(path, LLMRequest("p", 200), answers=f"use {secret} here")
    assert secret in result.text and secret not in path.read_text() and "not kept" in caplog.text
    with pytest.raises(BackendError, match="no answer"):
        replay(path, LLMRequest("p", 200))


def test_ordinary_code_holds_no_secret():
    assert not has_secret("def token(key):\n    return sk - key  # ask-me\n", {"API_KEY": "short", "HOME": "def token"})


def test_a_torn_line_costs_only_itself(path, caplog):
    record(path, REQUEST)
    other, third = LLMRequest("Another?", 20), LLMRequest("Third?", 20)
    record(path, other)
    path.write_bytes(path.read_bytes()[:-9])
    assert replay(path).text == "fixed"
    assert "skipped" in caplog.text
    with pytest.raises(BackendError, match="no answer"):
        replay(path, other)
    record(path, third)
    assert replay(path).text == replay(path, third).text == "fixed"


def test_what_is_no_cassette_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("dear diary\n")
    with pytest.raises(ModelError, match="is no cassette"):
        ReplayBackend(path, inner=ScriptedBackend())
    assert path.read_text() == "dear diary\n"
    with pytest.raises(ModelError, match="no cassette at"):
        ReplayBackend(tmp_path / "missing.jsonl")
    with pytest.raises(ConfigError, match="needs a cassette"):
        ReplayBackend()
    path.write_text(json.dumps({"cassette": 99}) + "\n")
    with pytest.raises(ModelError, match="version 99"):
        ReplayBackend(path)


def test_another_models_cassette_is_refused(path):
    record(path, REQUEST)
    with pytest.raises(ModelError, match="holds 'model-x', not 'model-y'"):
        ReplayBackend(path, inner=ScriptedBackend(model_id="model-y"))


def test_failures_are_not_recorded(path):
    with pytest.raises(BackendError, match="down"):
        record(path, REQUEST, answers=iter([BackendError("down")]))
    (result,) = record(path, REQUEST)
    assert result.text == "fixed"


def test_closed_while_the_interpreter_ends_it_writes_what_is_left_and_closes_the_model(path):
    """No thread can be started then any more."""
    code = f"""
import asyncio, atexit
from apex_framework.testing.scripted import ScriptedBackend
from apex_llm.replay import ReplayBackend

class Told(ScriptedBackend):
    async def close(self):
        print("closed")

backend = ReplayBackend({str(path)!r}, inner=Told(["once"], model_id="model-x"))
backend.count_tokens("some text")
atexit.register(lambda: asyncio.run(backend.close()))
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "closed\n", "")
    assert ReplayBackend(path).count_tokens("some text") == rule_of_four("some text")
