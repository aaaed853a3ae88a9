"""Our side of the protocol: who may do what to which task, and how a task is worked on."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from typing import Any, Final
from uuid import uuid4

from a2a.helpers import new_data_part, new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import Event, EventQueue
from a2a.server.request_handlers.default_request_handler_v2 import DefaultRequestHandlerV2
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCard,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import (
    A2AError,
    ContentTypeNotSupportedError,
    InternalError,
    InvalidParamsError,
    InvalidRequestError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from google.protobuf.json_format import MessageToDict, ParseDict

from .bridge import A2ABridge
from .cards import INPUT_MODES
from .envelope import EXTENSION, MOST_PARTS
from .jobs import HOW, Incomplete, read_job
from .principals import Doorman
from .refusal import E_ARG, E_AUTHZ, E_NOTFOUND, E_QUOTA, Refusal
from .settings import Push
from .strict import plain, text
from .urls import MOST_CONFIGS, vet
from .work import Job, Works

_log = logging.getLogger(__name__)

FINISHED: Final = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_REJECTED,
    }
)


def told(refusal: Refusal) -> A2AError:
    """A refusal in the protocol's words; its code begins the message."""
    if refusal.refusal == E_NOTFOUND:
        return TaskNotFoundError(str(refusal))
    kind = InvalidRequestError if refusal.refusal in (E_AUTHZ, E_QUOTA) else InvalidParamsError
    return kind(str(refusal))


class Tasks(InMemoryTaskStore):
    """Tasks by owner; of each owner the oldest finished ones are forgotten beyond its quota."""

    def __init__(self, doorman: Doorman) -> None:
        super().__init__()
        self._doorman = doorman
        self._order: dict[str, dict[str, bool]] = {}
        """Owner -> task -> whether it is over, oldest first."""

    async def save(self, task: Task, context: ServerCallContext) -> None:
        await super().save(task, context)
        owner = context.user.user_name
        order = self._order.setdefault(owner, {})
        order[task.id] = task.status.state in FINISHED
        surplus = len(order) - self._doorman.of(owner).kept
        for old in [each for each, over in order.items() if over and each != task.id][: max(0, surplus)]:
            del order[old]
            await self.delete(old, context)


class Executor(AgentExecutor):
    """Works on tasks; knows the bridge of each that runs."""

    def __init__(self, work: Works, doorman: Doorman) -> None:
        self._work, self._doorman = work, doorman
        self.bridges: dict[str, A2ABridge] = {}

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        message, principal = context.message, context.call_context.user.user_name
        assert message is not None and context.task_id and context.context_id
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await event_queue.enqueue_event(new_task_from_user_message(message))
        try:
            self._doorman.begin(principal)
        except Refusal as refusal:
            await updater.reject(updater.new_agent_message([new_text_part(str(refusal))]))
            return
        try:
            await self._run(read_job(context.task_id, principal, message), updater)
        except Refusal as refusal:
            await updater.reject(updater.new_agent_message([new_text_part(str(refusal))]))
        except Exception:  # noqa: BLE001 - the protocol's edge: a team that breaks is a failed task, told without details
            _log.exception("a2a: task %s failed", context.task_id)
            await updater.failed(updater.new_agent_message([new_text_part("the team failed; its log says why")]))
        finally:
            self.bridges.pop(context.task_id, None)
            self._doorman.end(principal)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """The work itself has been cancelled by the SDK before this is called."""
        assert context.task_id and context.context_id
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()

    async def _run(self, job: Job, updater: TaskUpdater) -> None:
        async def report(what: str) -> None:
            await updater.update_status(TaskState.TASK_STATE_WORKING, updater.new_agent_message([new_text_part(what)]))

        async def deliver(envelope: dict[str, Any]) -> None:
            message = ParseDict({**envelope, "role": "ROLE_AGENT"}, Message(), ignore_unknown_fields=True)
            message.task_id, message.context_id = updater.task_id, updater.context_id
            await updater.update_status(TaskState.TASK_STATE_WORKING, message)

        def opened(bridge: A2ABridge) -> None:
            self.bridges[job.id] = bridge

        await updater.start_work()
        done = await self._work.do(job, report, deliver, opened)
        facts = {
            "status": done.status, "steps": done.steps, "tokens": done.tokens, "tests": done.tests,
            "passed": done.passed, "faults": done.faults,
        }  # fmt: skip
        parts = [Part(text=done.patch, media_type="text/x-diff", filename="patch.diff")] if done.patch else []
        await updater.add_artifact([*parts, new_data_part(facts)], name="patch", last_chunk=True)
        words = f"{done.passed} of {done.tests} tests pass" + ("" if done.patch else "; nothing was changed")
        await updater.complete(updater.new_agent_message([new_text_part(words)]))


class Handler(DefaultRequestHandlerV2):
    """The SDK's handler behind our rules: a task belongs to its principal, and exceptions are told to nobody."""

    def __init__(
        self, store: Tasks, card: AgentCard, *, executor: Executor, doorman: Doorman, push: Push, **options: Any
    ) -> None:
        async def judged(url: str) -> bool:
            try:
                await vet(url, push)
            except Refusal as refusal:
                _log.warning("a2a: push address refused: %s", refusal)
                raise told(refusal) from None
            return True

        super().__init__(executor, store, card, push_url_validator=judged, **options)
        self._executor, self._doorman, self._store = executor, doorman, store

    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Message | Task:
        try:
            self._check(params)
            if params.message.task_id:
                return await self._to_team(params.message, context)
            try:
                read_job("", context.user.user_name, params.message)
            except Incomplete as missing:
                return _what_is_missing(params.message, missing)
            self._doorman.may_begin(context.user.user_name)
            answer: Message | Task = await super().on_message_send(params, context)
            return answer
        except Refusal as refusal:
            raise told(refusal) from None
        except A2AError:
            raise
        except Exception as error:  # noqa: BLE001 - the protocol's edge: what broke is in the log, and told to nobody
            raise _hidden(error) from None

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        try:
            self._check(params)
            if params.message.task_id:
                yield await self._to_team(params.message, context)
                return
            try:
                read_job("", context.user.user_name, params.message)
            except Incomplete as missing:
                yield _what_is_missing(params.message, missing)
                return
            self._doorman.may_begin(context.user.user_name)
            async for event in super().on_message_send_stream(params, context):
                yield event
        except Refusal as refusal:
            raise told(refusal) from None
        except A2AError:
            raise
        except Exception as error:  # noqa: BLE001 - the protocol's edge: what broke is in the log, and told to nobody
            raise _hidden(error) from None

    async def on_create_task_push_notification_config(
        self, params: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        store = self._push_config_store
        if store is not None and len(await store.get_info(params.task_id, context) or ()) >= MOST_CONFIGS:
            raise told(Refusal(E_QUOTA, f"at most {MOST_CONFIGS} addresses for a task"))
        answer: TaskPushNotificationConfig = await super().on_create_task_push_notification_config(params, context)
        return answer

    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> Any:
        try:
            return await super().on_list_tasks(params, context)
        except A2AError:
            raise
        except Exception as error:  # noqa: BLE001 - the protocol's edge: what broke is in the log, and told to nobody
            raise _hidden(error) from None

    def _check(self, params: SendMessageRequest) -> None:
        message = params.message
        if message.role != Role.ROLE_USER:
            raise Refusal(E_ARG, "a client speaks as ROLE_USER")
        text(message.message_id, "messageId")
        if message.context_id:
            text(message.context_id, "contextId", 256)
        if not 0 < len(message.parts) <= MOST_PARTS:
            raise Refusal(E_ARG, f"a message has 1 to {MOST_PARTS} parts")
        for part in message.parts:
            if part.media_type and part.media_type not in INPUT_MODES and not part.media_type.startswith("text/"):
                raise ContentTypeNotSupportedError(f"{E_ARG}: texts and {', '.join(INPUT_MODES)} are read")
        if EXTENSION in message.metadata.fields and not message.task_id:
            raise Refusal(E_NOTFOUND, "an envelope names the task whose team it is for")

    async def _to_team(self, message: Message, context: ServerCallContext) -> Message:
        """A message for a task that runs: an envelope for its team, which the bridge judges."""
        task = await self._store.get(message.task_id, context)
        if task is None:
            raise Refusal(E_NOTFOUND, "no such task")
        if message.context_id and message.context_id != task.context_id:
            raise Refusal(E_ARG, "another context than the task's")
        bridge = self._executor.bridges.get(message.task_id)
        if bridge is None:
            raise UnsupportedOperationError(f"{E_ARG}: the task is not at work; a new one takes a new message")
        receipt = await bridge.ingest_external(plain(MessageToDict(message)), context.user.user_name)
        return Message(
            message_id=f"receipt-{receipt.sequence}",
            role=Role.ROLE_AGENT,
            task_id=message.task_id,
            context_id=task.context_id,
            parts=[new_data_part(receipt.to_json())],
        )


def _what_is_missing(message: Message, missing: Incomplete) -> Message:
    """An answer that is no task: nothing is kept for a client that only says hello."""
    answer = new_text_message(f"What I need is {missing.what}. {HOW}", role=Role.ROLE_AGENT)
    answer.context_id = message.context_id or uuid4().hex
    return answer


def _hidden(error: Exception) -> InternalError:
    _log.error("a2a: a request broke", exc_info=error)
    return InternalError("something broke here; the server's log says what")
