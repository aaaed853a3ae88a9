"""A model in a process of its own: calls, counts, roles, and nothing left behind."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx
from worker_backends import alive, held, make, until

from apex_framework.errors import BackendError, Failure
from apex_framework.interfaces import LLMRequest, LLMStatus
from apex_framework.testing.llm import check_llm_backend
from apex_framework.workers import WorkerBackend
from apex_framework.workers.fleet import instance_of

ROLES = ("planner", "coder", "runner", "critic", "summarizer", "manager", "single")


def test_the_kit_passes() -> None:
    check_llm_backend(make)


def test_the_same_backend_serves_one_loop_after_the_other() -> None:
    backend = make()
    first = asyncio.run(backend.generate(LLMRequest("hello", 9)))
    again = asyncio.run(backend.generate(LLMRequest("hello", 9)))
    assert first == again and first.status is LLMStatus.LENGTH and first.tokens_out == 9
    asyncio.run(backend.close())
    asyncio.run(backend.close())


def test_pieces_together_are_the_answer() -> None:
    async def main() -> None:
        backend = make(token_s=0.01)
        request = LLMRequest("hello", 40, stop=("delta",), seed=3)
        chunks = [chunk async for chunk in backend.stream(request)]
        whole = await backend.generate(request)
        assert len(chunks) > 2 and chunks[-1].result == whole
        assert "".join(chunk.text for chunk in chunks) == whole.text
        assert "delta" not in whole.text and whole.status is LLMStatus.OK
        await backend.close()

    asyncio.run(main())


def test_a_role_always_asks_the_same_instance_and_instances_are_processes() -> None:
    assert [instance_of(role, 5) for role in ROLES] == [0, 4, 3, 2, 1, 1, 2], "runs of yesterday asked these"

    async def main() -> None:
        backend = make(instances=5)
        await backend.warm()
        pids = set(backend.processes)
        assert len(pids) == 5 and os.getpid() not in pids
        answers = [await backend.generate(LLMRequest("hello", 5, role=role)) for role in ROLES]
        assert len(set(answers)) == 1 and set(backend.processes) == pids
        await backend.close()

    asyncio.run(main())


@pytest.mark.parametrize("instances", range(1, 9))
@pytest.mark.parametrize("team", [5, 6])
def test_the_roles_of_a_team_are_spread_as_evenly_as_they_can_be(instances: int, team: int) -> None:
    per_instance = Counter(instance_of(role, instances) for role in ROLES[:team])
    assert max(per_instance.values()) == math.ceil(team / instances)


def test_strange_roles_are_spread_by_chance() -> None:
    per_instance = Counter(instance_of(f"role-{n}", 5) for n in range(5000))
    assert all(abs(per_instance[n] - 1000) < 120 for n in range(5)), "four standard deviations"


def test_an_instance_is_started_when_its_role_first_asks() -> None:
    async def main() -> None:
        backend = make(instances=5)
        assert backend.processes == ()
        for role, started in (("manager", 1), ("summarizer", 1), ("coder", 2), ("critic", 3), ("single", 3)):
            await backend.generate(LLMRequest("hello", 5, role=role))
            assert len(backend.processes) == started
        await backend.close()

    asyncio.run(main())


def test_calls_to_one_instance_wait_for_each_other_and_all_are_answered() -> None:
    async def main() -> None:
        backend = make()
        requests = [LLMRequest(f"question {n}", 6) for n in range(20)]
        together = await asyncio.gather(*(backend.generate(r) for r in requests))
        assert list(together) == [await backend.generate(r) for r in requests]
        await backend.close()

    asyncio.run(main())


def test_counting_ahead_leaves_nothing_to_wait_for_on_the_loop() -> None:
    async def main() -> None:
        backend = make()
        request = LLMRequest("how many?", 5, system="be brief")
        await backend.warm()
        with blockbuster_ctx("apex_framework"):
            await backend.count_ahead(request, "heard this")
            assert list(await backend.count_batch(["heard this", "a b c"])) == [2, 3]
            result = await backend.generate(request)
            assert backend.count_request(request) == result.tokens_in == 8
            assert backend.count_tokens("heard this") == 2
            assert backend.count_tokens(result.text) == result.tokens_out, "an answer is counted where it is made"
        await backend.close()
        assert backend.count_request(request) == 8 and backend.processes == (), "from memory, with nobody to ask"

    asyncio.run(main())


def test_what_is_named_like_a_secret_is_not_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "canary")
    monkeypatch.setenv("PLAIN_SETTING", "seen")

    async def main() -> None:
        backend = make()
        await backend.warm()
        with open(f"/proc/{backend.processes[0]}/environ", "rb") as file:  # noqa: ASYNC230 - nobody else is on this loop
            environ = file.read()
        assert b"PLAIN_SETTING=seen" in environ and b"canary" not in environ
        await backend.close()

    asyncio.run(main())


@pytest.mark.parametrize("when", ["unused", "used", "at work"])
def test_closing_leaves_no_process_descriptor_or_thread(when: str) -> None:
    before = held()

    async def main() -> None:
        backend = make(instances=2, token_s=0.01)
        calls: list[asyncio.Future[object]] = []
        if when != "unused":
            await backend.generate(LLMRequest("hello", 3))
            assert backend.count_tokens("one two") == 2
        if when == "at work":
            calls = [asyncio.ensure_future(backend.generate(LLMRequest(f"{n}", 4000))) for n in range(3)]
            await asyncio.sleep(0.1)
        await backend.close()
        for ended in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(ended, BackendError) and ended.kind is Failure.CANCELLED, ended

    asyncio.run(main())
    assert held() == before


_PARENT = """
import asyncio, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs the tests in the background ignores it
sys.path.insert(0, sys.argv[1])
from worker_backends import make
from apex_framework.interfaces import LLMRequest
async def main():
    backend = make(instances=2, hang_after=1)
    await backend.warm()
    tokenizer = backend._fleet.tokenizer.pid
    print(*backend.processes, tokenizer, flush=True)
    await asyncio.gather(*(backend.generate(LLMRequest("x", 4000, role=r)) for r in ("coder", "critic")))
asyncio.run(main())
"""


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_processes_die_with_the_one_that_started_them(signum: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT, str(Path(__file__).parent)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 3 and all(alive(pid) for pid in pids)
        parent.send_signal(signum)
        parent.wait(30)
        assert until(lambda: not any(alive(pid) for pid in pids)), "a model process outlived its run"


def test_a_prompt_too_large_for_a_frame_is_refused_and_the_process_lives() -> None:
    async def main() -> None:
        backend = make()
        await backend.warm()
        pids = backend.processes
        with pytest.raises(BackendError, match="too large") as caught:
            await backend.generate(LLMRequest("x" * (17 << 20), 5))
        assert caught.value.kind is Failure.CONTEXT_EXCEEDED
        with pytest.raises(BackendError, match="5003 tokens"):
            await backend.generate(LLMRequest("x " * 5000, 5))
        assert (await backend.generate(LLMRequest("x", 5))).tokens_out == 5
        assert backend.processes == pids
        await backend.close()

    asyncio.run(main())


def test_lone_surrogates_pass() -> None:
    backend: WorkerBackend = make()
    result = asyncio.run(backend.generate(LLMRequest("caf\udce9 \ud800", 5)))
    assert result.tokens_out == 5 and backend.count_tokens("caf\udce9") > 0
    asyncio.run(backend.close())
