"""An Ollama server's models are unloaded by its own API, by hand and by mem_watch."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest

from apex_framework.errors import BackendError, Failure
from apex_framework.interfaces import ListsLoaded, LLMRequest, LoadedModel, Unloads
from apex_framework.testing.servers import Model, OllamaServer

pytest.importorskip("ollama", reason="the extra [ollama] is not installed")


def watch(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "apex_framework.scripts.mem_watch", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def load(server: OllamaServer) -> None:
    from apex_llm.ollama import OllamaBackend

    async def work() -> None:
        backend = OllamaBackend("tiny", base_url=server.url)
        await backend.warm()
        await backend.close()

    asyncio.run(work())


def test_unloading_is_asked_for_by_keep_alive_and_the_next_call_loads_again() -> None:
    from apex_llm.ollama import OllamaBackend

    async def work(backend: OllamaBackend) -> None:
        assert all(isinstance(backend, ability) for ability in (Unloads, ListsLoaded))
        assert await backend.loaded() == []
        await backend.warm()
        assert await backend.loaded() == [LoadedModel("tiny")]
        await backend.unload()
        assert await backend.loaded() == []
        assert (await backend.generate(LLMRequest("hello", 3))).text
        assert await backend.loaded() == [LoadedModel("tiny")]
        await backend.close()

    with OllamaServer() as server:
        asyncio.run(work(OllamaBackend("tiny", base_url=server.url)))
        (asked,) = (r.json() for r in server.requests if r.path == "/api/generate")
    assert asked["keep_alive"] == 0 and not asked.get("prompt")


def test_unloading_a_model_that_is_not_there_fails_typed() -> None:
    from apex_llm.ollama import OllamaBackend

    with OllamaServer(Model("other")) as server, pytest.raises(BackendError) as caught:
        asyncio.run(OllamaBackend("tiny", base_url=server.url).unload())
    assert caught.value.kind is Failure.NOT_FOUND


def test_mem_watch_unloads_a_servers_model_when_memory_is_short() -> None:
    with OllamaServer() as server:
        load(server)
        calm = watch("--once", "--json", "--warn", "0", "--unload", "0", "--ollama", server.url)
        assert calm.returncode == 0 and server.loaded_ctx, calm.stderr
        assert json.loads(calm.stdout)["loaded"] == ["tiny"]
        short = watch("--once", "--json", "--warn", "99.999", "--unload", "99.999", "--ollama", server.url)
        assert short.returncode == 5 and server.loaded_ctx == 0, short.stderr
        row = json.loads(short.stdout)
        assert row["unloaded"] == "tiny" and row["pressure"] == "critical" and row["trouble"] == ""


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--warn", "3"], 2, "unload 0.05, warn 0.03"),
        (["--warn", "much"], 2, "--warn must be a percentage"),
        (["--interval", "0"], 2, "seconds between two looks"),
        (["--ollama", "ftp://x"], 2, "no address"),
        (["--once", "--ollama", "http://127.0.0.1:9"], 3, "E0331"),
    ],
)
def test_bad_input_is_one_clear_line(arguments: list[str], status: int, said: str) -> None:
    done = watch(*arguments)
    assert done.returncode == status and said in done.stderr and "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 2 and done.stdout == ""


def test_a_watch_goes_on_when_its_server_is_gone_and_ends_when_it_is_interrupted() -> None:
    import signal

    command = [
        sys.executable,
        "-m",
        "apex_framework.scripts.mem_watch",
        "--interval",
        "0.05",
        "--ollama",
        "127.0.0.1:9",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert all("% of memory free" in line and "no connection" in line for line in lines)
    assert process.returncode == 130 and "interrupted" in said and "Traceback" not in said
