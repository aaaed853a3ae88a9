"""``apex doctor``: a line per check whatever the check does, status 3 when one fails, and never a secret."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apex_framework.catalog import Catalog, Owner
from apex_framework.cli.boundary import run
from apex_framework.cli.checks import installation, machine
from apex_framework.cli.checks.backend import backend, needs_of
from apex_framework.cli.checks.guarded import cleaned, findings, masked
from apex_framework.cli.doctor import table
from apex_framework.errors import BackendError, Failure, ModelError
from apex_framework.hookspecs import ApexSpec
from apex_framework.interfaces import (
    Chunk,
    Finding,
    Grade,
    Health,
    LLMCapabilities,
    LLMRequest,
    LLMResult,
    ModelIdentity,
    Needs,
)
from apex_framework.plugins import load_plugins
from apex_framework.workers import Memory, context_finding, memory_finding

NEEDS = Needs(4000, 2048)
GB = 10**9


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def doctor(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[dict[str, str]]]:
    status = run(["doctor", *arguments, "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert isinstance(rows, list) and all(set(row) == {"what", "status", "found", "remedy"} for row in rows)
    assert status == (3 if any(row["status"] == "fail" for row in rows) else 0)
    return status, rows


def row(rows: Sequence[dict[str, str]], what: str) -> dict[str, str]:
    return next(row for row in rows if row["what"] == what)


def test_it_looks_at_machine_installation_folders_and_configuration(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    _, rows = doctor(capsys)
    seen = {r["what"] for r in rows}
    assert {"python", "platform", "cores", "memory", "clock", "plugins", "configuration"} <= seen
    assert {"runs folder", "state folder", "cache folder", "workspaces", "tool bwrap", "tool docker"} <= seen
    assert any(what.startswith("extra [") for what in seen)
    assert all(r["remedy"] for r in rows if r["status"] != "ok")
    assert list(tmp_path.iterdir()) == [], "looking leaves nothing"


def test_a_line_per_check_and_the_word_fail_is_loud(capsys: pytest.CaptureFixture[str]) -> None:
    (Path.cwd() / "apex.toml").write_text("budgett = 1\n")
    assert run(["doctor"]) == 3
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].split()[:2] == ["status", "check"]
    bad = [line for line in lines if line.startswith("FAIL")]
    assert len(bad) == 1 and "apex.toml:1" in bad[0] and "did you mean 'budget'" in bad[0]
    assert err.strip() == f"1 of {len(lines) - 1} checks FAIL"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('lane = "nosuch"', "unknown lane"),
        ("budget = -1", "budget"),
        ("not toml", "apex.toml"),
        ('policies = ["nosuch"]', "policy"),
    ],
)
def test_a_configuration_that_cannot_be_used(text: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    (Path.cwd() / "apex.toml").write_text(text + "\n")
    status, rows = doctor(capsys)
    failed = [r for r in rows if r["status"] == "fail"]
    assert status == 3 and [r["what"] for r in failed] == ["configuration"] and words in failed[0]["found"]


def test_folders_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    found = {f.what: f for f in installation.folders(tmp_path / "file" / "runs")}
    assert found["runs folder"].grade is found["state folder"].grade is Grade.FAIL
    assert "is a file" in found["runs folder"].found and found["runs folder"].remedy


def test_a_broken_plugin_fails_and_one_left_out_does_not() -> None:
    class Broken(ApexSpec):
        def apex_topologie(self) -> None: ...

    found = list(installation.plugins(load_plugins(plugins={"broken": Broken()}, block=["apex-framework"])))
    assert [f.grade for f in found] == [Grade.OK, Grade.FAIL] and "left out" in found[0].found
    assert found[1].what == "plugin broken" and "-p no:broken" in found[1].remedy


def test_a_missing_extra_says_what_it_is_for_and_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.requires", lambda name: ["no-such-thing>1; extra == 'http'"])
    catalog = load_plugins(environ={"APEX_PLUGINS": ""}).catalog
    found = {f.what: f for f in installation.extras(catalog)}["extra [http]"]
    assert found.grade is Grade.OK and "no-such-thing" in found.found and "openai" in found.found
    assert found.remedy == "pip install 'apex-framework[http]'"


def test_machines_that_are_not_well() -> None:
    assert [f.grade for f in machine.python((3, 10, 1))] == [Grade.FAIL]
    assert [f.grade for f in machine.system("win32")] == [Grade.WARN]
    assert [f.grade for f in machine.processors(10**6)] == [Grade.WARN]
    assert [f.grade for f in machine.free_memory(Memory(10**8, 8 * GB))] == [Grade.WARN]


def test_a_clock_of_another_age_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1000.0)
    assert [f.grade for f in machine.clock()] == [Grade.FAIL]


# --- backends ---------------------------------------------------------------------------------


class Plain:
    """A backend that can do nothing special."""

    capabilities = LLMCapabilities("plain-1", 8192, deterministic=False)
    closed = 0

    def count_tokens(self, text: str) -> int:
        return len(text)

    async def generate(self, request: LLMRequest) -> LLMResult:
        return LLMResult("ready", 5, 1)

    async def close(self) -> None:
        type(self).closed += 1


class Examined(Plain):
    async def examine(self, needs: Needs) -> Sequence[Finding]:
        return [Finding("file", Grade.OK, "there"), Finding("context", needs.grade(1), "short", "more")]


class Raises(Plain):
    async def examine(self, needs: Needs) -> Sequence[Finding]:
        raise ZeroDivisionError("by zero\nand a second line")


class RaisesTyped(Plain):
    async def examine(self, needs: Needs) -> Sequence[Finding]:
        raise BackendError("gone", kind=Failure.CONNECT)


class Hangs(Plain):
    async def examine(self, needs: Needs) -> Sequence[Finding]:
        await asyncio.Event().wait()
        return []


class HangsAndClings(Plain):
    async def examine(self, needs: Needs) -> Sequence[Finding]:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue


class Blocks(Plain):
    async def examine(self, needs: Needs) -> Sequence[Finding]:
        while True:
            time.sleep(0.01)  # noqa: ASYNC251 - it is meant to block the loop


class ClosesNever(Examined):
    async def close(self) -> None:
        await asyncio.Event().wait()


class Unwell(Plain):
    async def health(self) -> Health:
        return Health(False, "it rains", remedy="wait")

    async def identity(self) -> ModelIdentity:
        raise AssertionError("not asked after that")


class Streaming(Plain):
    text = "ready"

    async def stream(self, request: LLMRequest) -> AsyncIterator[Chunk]:
        assert request.max_tokens <= 16
        yield Chunk(self.text)
        yield Chunk("", LLMResult(self.text, 5, 1))


class Silent(Streaming):
    text = ""


class FailsInCalls(Examined):
    async def examine(self, needs: Needs) -> Sequence[Finding]:
        return [Finding("file", Grade.OK, "there")]

    async def generate(self, request: LLMRequest) -> LLMResult:
        raise BackendError("no memory left", kind=Failure.WORKER_DIED)


def examined(kind: type[Plain], *, call: bool = False, limit_s: float = 0.3) -> list[Finding]:
    catalog = Catalog()
    catalog.add("llm_backend", "it", kind, owner=Owner("test"))
    return list(backend("it", catalog, NEEDS, call=call, limit_s=limit_s))


def test_a_backend_that_examines_itself_is_believed_and_closed() -> None:
    before = Examined.closed
    found = examined(Examined)
    assert [(f.what, f.grade) for f in found] == [("file", Grade.OK), ("context", Grade.FAIL)]
    assert Examined.closed == before + 1


def test_one_that_does_not_is_asked_what_it_can_say() -> None:
    assert [(f.what, f.grade) for f in examined(Plain)] == [("model", Grade.OK), ("context", Grade.OK)]
    assert [(f.what, f.grade, f.remedy) for f in examined(Unwell)] == [("health", Grade.FAIL, "wait")]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Raises, "ZeroDivisionError: by zero and a second line"),
        (RaisesTyped, "gone"),
        (Hangs, "no answer after 0.3 s"),
        (HangsAndClings, "no answer after 0.3 s"),
        (Blocks, "no answer after 0.3 s"),
    ],
)
def test_one_that_raises_or_hangs_fails_in_a_line(kind: type[Plain], words: str) -> None:
    found = examined(kind)
    assert [f.grade for f in found] == [Grade.FAIL] and words in found[0].found and found[0].remedy


def test_what_was_found_before_a_hang_stays_found() -> None:
    assert [f.what for f in examined(ClosesNever)] == ["file", "context", "backend"]


def test_one_that_cannot_be_made_fails_with_its_own_remedy() -> None:
    def factory(**_: Any) -> Plain:
        raise ModelError("no such file", "name another")

    def stuck(**_: Any) -> Plain:
        while True:
            time.sleep(0.01)

    for make, words in ((factory, "no such file"), (stuck, "no answer after")):
        catalog = Catalog()
        catalog.add("llm_backend", "it", make, owner=Owner("test"))
        (found,) = backend("it", catalog, NEEDS, limit_s=0.2)
        assert found.grade is Grade.FAIL and words in found.found and found.remedy


def test_a_call_is_made_only_when_asked_for_and_is_timed() -> None:
    assert "call" not in {f.what for f in examined(Streaming)}
    for kind in (Plain, Streaming):
        last = examined(kind, call=True)[-1]
        assert (last.what, last.grade) == ("call", Grade.OK) and "5 tokens in, 1 out" in last.found
    assert "first token after" in examined(Streaming, call=True)[-1].found
    assert examined(Silent, call=True)[-1].grade is Grade.WARN
    assert [(f.what, f.grade) for f in examined(FailsInCalls, call=True)][-1] == ("call", Grade.FAIL)
    assert "call" not in {f.what for f in examined(Examined, call=True)}, "no tokens for what fails anyway"


def test_usage_errors_end_with_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--call"], ["--backend", "nosuch"], ["--backend", "repair", "--budget", "-1"], ["-p"]):
        assert run(["doctor", *arguments]) == 2
        out, err = capsys.readouterr()
        assert not out and err.startswith("error[E02") and "Traceback" not in err


def test_the_embedded_solver_and_several_backends(capsys: pytest.CaptureFixture[str]) -> None:
    status, rows = doctor(capsys, "--backend", "repair", "--call")
    assert status == 0 and [r["what"] for r in rows] == ["model", "context", "call"]
    status, rows = doctor(capsys, "--backend", "coder=replay:nothing.jsonl,*=repair")
    assert status == 3 and row(rows, "repair: model")["status"] == "ok"
    assert row(rows, "replay:nothing.jsonl: backend")["status"] == "fail"


# --- what holds for every finding ---------------------------------------------------------------


@given(st.integers(1, 10**12), st.integers(0, 10**7), st.integers(0, 10**7))
def test_more_context_is_never_worse(budget: int, context: int, more: int) -> None:
    needs, order = needs_of(budget), [Grade.FAIL, Grade.WARN, Grade.OK]
    assert needs.least_context_tokens <= needs.context_tokens <= budget
    assert order.index(needs.grade(context)) <= order.index(needs.grade(context + more))
    assert needs.grade(budget) is Grade.OK
    assert context_finding(context, 0, needs).grade is needs.grade(context)


@given(st.integers(0, 64 * GB), st.integers(0, 64 * GB))
def test_memory_that_does_not_suffice_fails(need: int, free: int) -> None:
    found = memory_finding(need, "it", Memory(free, 64 * GB))
    assert (found.grade is Grade.FAIL) == (need > free) and bool(found.remedy) == (found.grade is not Grade.OK)


SECRETS = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", min_size=16, max_size=40)
AROUND = st.text(st.characters(codec="utf-8"), max_size=30)


def leaks(masking: Any, secret: str, before: str, after: str) -> bool:
    """Whether a secret that a variable holds, or that has the shape of one, gets through."""
    held = masking(f"{before}{secret}{after}", {"MY_API_KEY": secret})
    shaped = masking(f"{before} sk-{secret} {after}", {})
    inside = masking(f"{before} http://me:{secret}@host/ {after}", {})
    return secret in held or f"sk-{secret}" in shaped or f":{secret}@" in inside


@given(SECRETS, AROUND, AROUND)
def test_no_secret_is_shown(secret: str, before: str, after: str) -> None:
    assert not leaks(masked, secret, before, after)


def test_a_masking_that_forgets_the_variables_is_found_out() -> None:
    assert leaks(lambda text, _: masked(text, {}), "abcdefghijklmnop1234", "it is ", ".")


def test_findings_are_short_printable_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "very-secret-value")

    def check() -> Iterator[Finding]:
        yield Finding("a\tb", Grade.FAIL, "x\n\x1b[31mvery-secret-value" + "y" * 1000, "z\r\n")

    (found,) = findings("it", check)
    assert found.what == "a b" and found.remedy == "z" and len(found.found) <= 240
    assert found.found.isprintable() and "secret" not in found.found
    assert cleaned(found) == found and len(table([found]).splitlines()) == 2


def test_a_check_that_raises_or_hangs_is_a_finding() -> None:
    def raises() -> Iterator[Finding]:
        raise OSError("disk")
        yield

    def hangs() -> Iterator[Finding]:
        while True:
            time.sleep(0.01)
        yield

    assert [f.grade for f in findings("it", raises)] == [Grade.FAIL]
    assert ["no answer" in f.found for f in findings("it", hangs, 0.2)] == [True]
