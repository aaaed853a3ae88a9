"""F33: a model process is killed, crashes, hangs, or does not load: typed, started again, never for ever."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from worker_backends import alive, held, make, until

from apex_framework.errors import BackendError, Failure
from apex_framework.interfaces import LLMRequest


def _failure(work: object) -> BackendError:
    assert isinstance(work, BackendError), work
    return work


def test_f33_a_crash_under_a_call_fails_it_typed_and_the_next_gets_a_new_process(tmp_path: Path) -> None:
    async def main() -> None:
        backend = make(crash_after=3, token_s=0.03, once=str(tmp_path / "done"))
        await backend.warm()
        (before,) = backend.processes
        with pytest.raises(BackendError, match="SIGSEGV") as caught:
            await backend.generate(LLMRequest("hello", 9))
        assert caught.value.kind is Failure.WORKER_DIED and not caught.value.retryable
        assert len(caught.value.partial.split()) == 3, "what had come is told"
        assert (await backend.generate(LLMRequest("hello", 9))).tokens_out == 9
        (after,) = backend.processes
        assert after != before and not alive(before)
        assert "1 restarts" in (await backend.health()).detail
        await backend.close()

    asyncio.run(main())


def test_f33_kill_9_under_a_call_fails_it_typed_and_calls_that_waited_are_answered() -> None:
    async def main() -> None:
        backend = make(token_s=0.01)
        await backend.warm()
        begun = asyncio.Event()

        async def first() -> None:
            async for _ in backend.stream(LLMRequest("long", 4000)):
                begun.set()

        call = asyncio.ensure_future(first())
        await begun.wait()
        waiting = [asyncio.ensure_future(backend.generate(LLMRequest(f"{n}", 3))) for n in range(3)]
        await asyncio.sleep(0.05)
        os.kill(backend.processes[0], signal.SIGKILL)
        (ended,) = await asyncio.gather(call, return_exceptions=True)
        assert _failure(ended).kind is Failure.WORKER_DIED and "SIGKILL" in str(ended)
        assert [r.tokens_out for r in await asyncio.gather(*waiting)] == [3, 3, 3], "nobody had begun these"
        await backend.close()

    asyncio.run(main())


def test_f33_after_three_restarts_within_a_minute_it_is_not_started_again() -> None:
    async def main() -> None:
        backend = make(crash_after=0)
        causes = []
        for _ in range(7):
            with pytest.raises(BackendError) as caught:
                await backend.generate(LLMRequest("hello", 9))
            assert caught.value.kind is Failure.WORKER_DIED
            causes.append(str(caught.value))
        assert backend._fleet is not None
        assert backend._fleet.instances[0].starts == 4, "once, and three times again"
        assert all("died 4 times within 60 s" in cause and "SIGSEGV" in cause for cause in causes[4:])
        assert not any("died 4 times" in cause for cause in causes[:4])
        await backend.close()

    asyncio.run(main())


def test_f33_a_hang_while_loading_is_ended_and_named(tmp_path: Path) -> None:
    async def main() -> None:
        before = held()
        backend = make(load="hang", once=str(tmp_path / "done"), load_s=4.0)
        with pytest.raises(BackendError, match="had not loaded the model after 4 s") as caught:
            await backend.generate(LLMRequest("hello", 9))
        assert caught.value.kind is Failure.WORKER_DIED
        assert (await backend.generate(LLMRequest("hello", 9))).tokens_out == 9
        await backend.close()
        assert held() == before

    asyncio.run(main())


@pytest.mark.parametrize(
    ("load", "kind", "words"),
    [
        ("crash", Failure.WORKER_DIED, "SIGSEGV: tensor of an unknown type: abort"),
        ("refuse", Failure.NOT_FOUND, "the file has no weights"),
    ],
)
def test_f33_what_does_not_load_says_why(load: str, kind: Failure, words: str) -> None:
    async def main() -> None:
        before = held()
        backend = make(load=load)
        with pytest.raises(BackendError, match=words) as caught:
            await backend.generate(LLMRequest("hello", 9))
        assert caught.value.kind is kind and not caught.value.retryable and caught.value.remedy
        with pytest.raises(BackendError, match=words):
            await backend.warm()
        await backend.close()
        assert held() == before

    asyncio.run(main())


def test_f33_a_hang_under_a_call_ends_with_the_callers_patience(tmp_path: Path) -> None:
    async def main() -> None:
        backend = make(hang_after=2, once=str(tmp_path / "done"), grace_s=0.3)
        await backend.warm()
        (before,) = backend.processes
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(backend.generate(LLMRequest("hello", 9)), 0.5)
        assert (await backend.generate(LLMRequest("hello", 9))).tokens_out == 9
        assert backend.processes != (before,) and not alive(before)
        await backend.close()

    asyncio.run(main())


def test_a_cancelled_call_ends_in_the_process_which_goes_on() -> None:
    async def main() -> None:
        backend = make(token_s=0.01)
        await backend.warm()
        pids = backend.processes
        for _ in range(5):
            call = asyncio.ensure_future(backend.generate(LLMRequest("hello", 4000)))
            await asyncio.sleep(0.05)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            assert call.cancelled()
            assert (await backend.generate(LLMRequest("short", 2))).tokens_out == 2
        assert backend.processes == pids
        await backend.close()

    asyncio.run(main())


def test_a_process_that_does_not_heed_a_cancellation_is_killed_and_that_is_no_crash() -> None:
    async def main() -> None:
        backend = make(hang_after=5, grace_s=0.1)
        await backend.warm()
        seen = set(backend.processes)
        for _ in range(6):
            call = asyncio.ensure_future(backend.generate(LLMRequest("hello", 400)))
            await asyncio.sleep(0.05)
            waiting = asyncio.ensure_future(backend.generate(LLMRequest("short", 2)))
            await asyncio.sleep(0)
            call.cancel()
            assert (await waiting).tokens_out == 2, "the call behind it is answered by the next process"
            seen |= set(backend.processes)
        assert len(seen) == 7
        await backend.close()
        assert until(lambda: not any(alive(pid) for pid in seen))

    asyncio.run(main())


def test_a_tokenizer_that_is_killed_is_started_again() -> None:
    async def main() -> None:
        backend = make()
        assert backend.count_tokens("one two") == 2
        assert backend._fleet is not None
        pid = backend._fleet.tokenizer.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        assert until(lambda: not alive(pid))
        assert backend.count_tokens("one two three") == 3
        await backend.close()

    asyncio.run(main())


def test_a_process_that_talks_without_end_does_not_block() -> None:
    async def main() -> None:
        backend = make(load="flood")
        assert (await backend.generate(LLMRequest("hello", 9))).tokens_out == 9
        await backend.close()

    asyncio.run(main())
