"""The server and the official client, over JSON-RPC and gRPC; ownership, quotas, refusals to start."""

from __future__ import annotations

import asyncio
import re
import tomllib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from a2a.client.errors import A2AClientError
from a2a.types import CancelTaskRequest, GetTaskRequest, ListTasksRequest, SubscribeToTaskRequest
from a2a.types import Message as A2AMessage
from a2a.types import TaskState as State
from a2a.utils.errors import A2AError, ContentTypeNotSupportedError, TaskNotFoundError
from google.protobuf.json_format import ParseDict
from world import CATALOG, client, repair_request, settings

from apex_a2a.bridge import A2ABridge
from apex_a2a.envelope import EXTENSION
from apex_a2a.evil import HeldWork
from apex_a2a.jobs import read_job
from apex_a2a.principals import Doorman
from apex_a2a.refusal import Refusal
from apex_a2a.server import admitted, serving
from apex_a2a.settings import Principal, Settings, settings_from, token_hash
from apex_a2a.work import Done, Job, Work
from apex_framework.errors import ConfigError, EnvironmentProblem
from apex_framework.testing.scripted import ManualClock

REMOTE = {"url": "http://x", "role": "critic", "audiences": ["planner"]}
BOTH = pytest.mark.parametrize("grpc", [False, True], ids=["jsonrpc", "grpc"])


class QuickWork:
    """Answers at once, with a patch."""

    async def do(
        self,
        job: Job,
        report: Callable[[str], Awaitable[None]],
        deliver: Callable[[dict[str, Any]], Awaitable[None]],
        opened: Callable[[A2ABridge], None],
    ) -> Done:
        await report("step 1: planner")
        return Done("finished", f"diff of {job.issue[:3]}", 2, 2, 1, 10, 0)

    async def close(self) -> None: ...


class BrokenWork(QuickWork):
    """Breaks, with a secret in its words."""

    async def do(self, *_: Any) -> Done:
        raise RuntimeError("secret path of the server")


async def events(made: Any, request: Any) -> list[Any]:
    return [event async for event in made.send_message(request)]


async def begin(made: Any) -> str:
    """Begin a task that is held; its id."""
    async for event in made.send_message(repair_request()):
        return str(event.task.id)
    raise AssertionError("no answer")


@pytest.mark.slow
@BOTH
def test_the_team_repairs_what_the_official_client_sends(grpc: bool) -> None:
    async def main() -> None:
        async with serving(settings(), CATALOG) as running, client(running, grpc=grpc) as made:
            got = await events(made, repair_request())
            kinds = [event.WhichOneof("payload") for event in got]
            assert kinds[0] == "task" and kinds[-2:] == ["artifact_update", "status_update"]
            parts = got[-2].artifact_update.artifact.parts
            assert "+    return a + b" in parts[0].text and parts[0].media_type == "text/x-diff"
            facts = parts[1].data.struct_value.fields
            assert (facts["passed"].number_value, facts["tests"].number_value) == (2, 2)
            assert 0 < facts["tokens"].number_value <= running.settings.work.budget
            task = await made.get_task(GetTaskRequest(id=got[0].task.id))
            assert task.status.state == State.TASK_STATE_COMPLETED

    asyncio.run(main())


@BOTH
def test_tasks_stream_are_read_listed_and_end(grpc: bool) -> None:
    async def main() -> None:
        async with serving(settings(), CATALOG, work=QuickWork()) as running, client(running, grpc=grpc) as made:
            got = await events(made, repair_request())
            states = [e.status_update.status.state for e in got if e.WhichOneof("payload") == "status_update"]
            assert states == [State.TASK_STATE_WORKING, State.TASK_STATE_WORKING, State.TASK_STATE_COMPLETED]
            listed = await made.list_tasks(ListTasksRequest(page_size=10))
            assert [task.id for task in listed.tasks] == [got[0].task.id]

    asyncio.run(main())


@BOTH
def test_a50_nobody_reads_cancels_or_follows_anothers_task(grpc: bool) -> None:
    async def main() -> None:
        held = HeldWork(CATALOG)
        async with (
            serving(settings(), CATALOG, work=held) as running,
            client(running, "alice", grpc=grpc) as alice,
            client(running, "bob", grpc=grpc) as bob,
        ):
            task = await begin(alice)
            with pytest.raises(TaskNotFoundError):
                await bob.get_task(GetTaskRequest(id=task))
            with pytest.raises(TaskNotFoundError):
                await bob.cancel_task(CancelTaskRequest(id=task))
            with pytest.raises(TaskNotFoundError):
                async for _ in bob.subscribe(SubscribeToTaskRequest(id=task)):
                    pass
            request = repair_request()
            request.message.task_id = task
            with pytest.raises(TaskNotFoundError):
                await events(bob, request)
            assert not (await bob.list_tasks(ListTasksRequest())).tasks
            assert (await alice.get_task(GetTaskRequest(id=task))).status.state == State.TASK_STATE_WORKING
            gone = await alice.cancel_task(CancelTaskRequest(id=task))
            assert gone.status.state == State.TASK_STATE_CANCELED
            assert running.executor.bridges == {}

    asyncio.run(main())


@BOTH
def test_an_envelope_to_a_running_task_reaches_its_router_and_is_receipted(grpc: bool) -> None:
    async def main() -> None:
        held = HeldWork(CATALOG)
        async with serving(settings(), CATALOG, work=held) as running, client(running, grpc=grpc) as made:
            task = await begin(made)
            await held.begun.acquire()
            request = repair_request()
            request.message.task_id = task
            request.message.metadata.update({EXTENSION: {"episode": task, "epoch": 0, "audience": "planner"}})
            del request.message.parts[1]
            (answer,) = await events(made, request)
            receipt = answer.message.parts[0].data.struct_value.fields
            assert receipt["result"].string_value == "enqueued" and held.reached == 1
            request.message.message_id += "2"
            request.message.metadata.update({EXTENSION: {"episode": task, "epoch": 1, "audience": "planner"}})
            with pytest.raises((A2AError, A2AClientError), match="E_EPOCH"):
                await events(made, request)
            assert held.reached == 1

    asyncio.run(main())


@BOTH
def test_a_stranger_is_told_nothing(grpc: bool) -> None:
    async def main() -> None:
        async with (
            serving(settings(), CATALOG, work=QuickWork()) as running,
            client(running, "mallory", grpc=grpc) as made,
        ):
            with pytest.raises((A2AError, A2AClientError)) as refused:
                await events(made, repair_request())
            assert "E_AUTH" in str(refused.value) or "401" in str(refused.value)

    asyncio.run(main())


@BOTH
def test_a_task_beyond_the_quota_is_refused_and_one_ended_gives_its_place_back(grpc: bool) -> None:
    async def main() -> None:
        strict = settings(principals={"alice": {"token_sha256": token_hash("t-alice"), "tasks": 1}})
        async with serving(strict, CATALOG, work=HeldWork(CATALOG)) as running, client(running, grpc=grpc) as made:
            task = await begin(made)
            with pytest.raises((A2AError, A2AClientError), match="E_QUOTA"):
                await begin(made)
            await made.cancel_task(CancelTaskRequest(id=task))
            assert await begin(made) != task

    asyncio.run(main())


def test_what_breaks_inside_is_told_to_nobody() -> None:
    async def main() -> None:
        async with serving(settings(), CATALOG, work=BrokenWork()) as running, client(running) as made:
            got = await events(made, repair_request())
            assert got[-1].status_update.status.state == State.TASK_STATE_FAILED
            assert "secret" not in "".join(map(str, got))

    asyncio.run(main())


@BOTH
def test_who_sends_no_project_is_told_what_to_send_and_nothing_is_kept(grpc: bool) -> None:
    async def main() -> None:
        async with serving(settings(), CATALOG, work=HeldWork(CATALOG)) as running, client(running, grpc=grpc) as made:
            request = repair_request()
            del request.message.parts[1]
            (answer,) = await events(made, request)
            assert "the project's files" in answer.message.parts[0].text and answer.message.context_id
            assert not (await made.list_tasks(ListTasksRequest())).tasks

    asyncio.run(main())


@BOTH
def test_a_part_of_a_kind_that_is_not_read_is_refused(grpc: bool) -> None:
    async def main() -> None:
        async with serving(settings(), CATALOG, work=QuickWork()) as running, client(running, grpc=grpc) as made:
            request = repair_request()
            request.message.parts[0].media_type = "application/zip"
            with pytest.raises(ContentTypeNotSupportedError, match="E_ARG"):
                await events(made, request)

    asyncio.run(main())


def test_the_card_may_be_kept_for_a_while_and_is_asked_for_by_its_mark() -> None:
    import httpx

    async def main() -> None:
        async with serving(settings(), CATALOG, work=QuickWork()) as running, httpx.AsyncClient() as web:
            url = f"{running.url}/.well-known/agent-card.json"
            card = await web.get(url)
            assert "max-age" in card.headers["cache-control"] and "GMT" in card.headers["last-modified"]
            assert (await web.get(url, headers={"If-None-Match": card.headers["etag"]})).status_code == 304

    asyncio.run(main())


def test_of_finished_tasks_only_so_many_are_kept() -> None:
    async def main() -> None:
        few = settings(principals={"alice": {"token_sha256": token_hash("t-alice"), "kept": 3}})
        async with serving(few, CATALOG, work=QuickWork()) as running, client(running) as made:
            tasks = [(await events(made, repair_request()))[0].task.id for _ in range(6)]
            listed = {task.id for task in (await made.list_tasks(ListTasksRequest())).tasks}
            assert listed == set(tasks[-3:])

    asyncio.run(main())


def test_tokens_of_a_principal_end_with_its_quota() -> None:
    from apex_a2a.principals import PrincipalScope
    from apex_framework import Guard, Ledger
    from apex_framework.interfaces import CallTags, Denied

    scope = PrincipalScope({"alice": Principal("0" * 64, tokens=100)})
    ledger, clock = Ledger(), ManualClock()
    for task, most in (("t1", 60), ("t2", 40)):  # a guard for each task, one ledger for all
        grant = Guard(ledger, [scope], clock=clock).reserve(CallTags("alice", task, "", "", 0), most)
        assert not isinstance(grant, Denied)
    for who in ("alice", "mallory"):
        denied = Guard(ledger, [scope], clock=clock).reserve(CallTags(who, "t3", "", "", 0), 1)
        assert isinstance(denied, Denied) and denied.reasons == {"principal": "tok_headroom"}


def test_bytes_within_a_minute_are_bounded() -> None:
    clock = ManualClock()
    doorman = Doorman({"a": Principal("0" * 64, bytes_per_minute=100)}, clock=clock, requests=1, tasks_at_once=1)
    doorman.take_bytes("a", 60)
    with pytest.raises(Refusal, match="bytes within a minute"):
        doorman.take_bytes("a", 60)
    clock.advance(61)
    doorman.take_bytes("a", 60)


# --- refusals to start ------------------------------------------------------------------------------


def test_nobody_is_served_without_principals() -> None:
    with pytest.raises(ConfigError, match="principals"):
        admitted(Settings(), insecure_local=False)


def test_insecure_local_is_for_loopback_alone() -> None:
    with pytest.raises(ConfigError, match="loopback"):
        admitted(settings_from({"server": {"host": "0.0.0.0"}}), insecure_local=True)
    with pytest.raises(ConfigError, match="insecure-local"):
        admitted(settings(), insecure_local=True)
    _, anyone = admitted(Settings(), insecure_local=True)
    assert anyone == "local"


def test_code_of_outsiders_demands_a_strong_sandbox_or_a_word() -> None:
    weak = settings_from({"work": {"sandbox": "plain"}})
    with pytest.raises(EnvironmentProblem, match="not landlock"):
        Work(CATALOG, weak)


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"servr": {}}, "unknown table"),
        ({"server": {"prot": 1}}, "unknown setting 'prot'"),
        ({"server": {"port": "1"}}, "must be int"),
        ({"server": {"body_bytes": -1}}, "at least 0"),
        ({"server": 3}, "no table"),
        ({"principals": {"a": {}}}, "token_sha256 is missing"),
        ({"principals": {"a": {"token_sha256": "x"}}}, "no SHA-256"),
        ({"principals": {"a b": {"token_sha256": "0" * 64}}}, "principal 'a b'"),
        ({"principals": {n: {"token_sha256": "0" * 64} for n in "ab"}}, "one token"),
        ({"keys": {"k": {"alg": "none", "pem": "x"}}}, "alg"),
        ({"remotes": {"r": REMOTE}}, "must be signed"),
        ({"remotes": {"r": {**REMOTE, "signed": False, "binding": "HTTP+JSON"}}}, "binding 'HTTP"),
        ({"remotes": {"r": {**REMOTE, "signed": False, "url": "agents.example"}}}, "url 'agents.example'"),
    ],
)
def test_settings_are_read_strictly(tables: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        settings_from(tables)


def test_the_settings_of_the_page_are_valid() -> None:
    page = (Path(__file__).parents[3] / "docs" / "a2a.md").read_text(encoding="utf-8")
    shown = "\n".join(re.findall(r"^```toml[^\n]*\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    read = settings_from(tomllib.loads(shown.replace('"..."', f'"{"0" * 64}"')))
    defaults = settings_from({"principals": {"alice": {"token_sha256": "0" * 64}}})
    assert (read.server, read.push, read.principals) == (defaults.server, defaults.push, defaults.principals)
    assert read.remotes["acme"].signed and read.keys["acme-1"].alg == "ES256"


@pytest.mark.parametrize(
    "files", [{"a": "1", "a/b": "2"}, {"ä" * 200: "x"}, {"/etc/x": ""}, {"a/../../x": ""}], ids=list("fnap")
)
def test_files_that_no_folder_can_hold_are_refused_before_a_workspace_is_made(files: dict[str, str]) -> None:
    parts = [{"data": {"issue": "broken", "files": files}}]
    message = ParseDict({"messageId": "m", "role": "ROLE_USER", "parts": parts}, A2AMessage())
    with pytest.raises(Refusal, match="E_ARG"):
        read_job("t", "p", message)
