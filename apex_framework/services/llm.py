"""The door to models: estimate, policies, reservation, call under deadlines, settlement, once each."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from ..budget import Durations, Grant, Guard, Ledger
from ..errors import ConfigError
from ..events import BackendWarmed, CallDenied, CallSettled, DirectCallBlocked, Event
from ..interfaces.budget import CallTags, Denied
from ..interfaces.interceptor import Intercepted, Interceptor, PlanKey, Point
from ..interfaces.llm import LLMBackend, LLMRequest, LLMResult
from ..interfaces.policy import ModelCall, Policy
from ..ports import Clock, Ids
from .advice import chain, denial
from .answered import unasked
from .backends import sealed_backends
from .breaker import Breakers
from .call import Call
from .desk import CallStats, Desk, Handle
from .outcomes import failed, late, stopped
from .streaming import Sink, Stages, Stream
from .tokenizers import Counted, TokenizerPool
from .warming import close_all, warmed

LLMAnswer = LLMResult | Denied


class LLMService:
    """Asks the backend of a role ("*": of every other role) on an agent's behalf. Temperature 0, top_p 1.

    What a call costs: the backend's own counts (see ``usage``). When there are none: nothing after a failure that is
    ``free``; the prompt, and what of the answer had come, after another; everything that was reserved after a timeout
    or a cancellation while the backend had the request, or an answer that cannot be read.

    Every call ends within ``deadline_s`` and a quarter of a second, whatever the backend does, short of holding the event
    loop. With ``first_token_s`` or ``idle_s`` answers are streamed where the backend can, and those deadlines hold, too. With
    ``breakers``, a backend that keeps failing is left alone for a while. ``breakers`` and ``tokenizers`` may be shared with
    other services, so that what was learned and loaded outlives this one; shared tokenizers are closed by who made them.

    A reservation is kept alive while its call is. With ``free_messages`` the part of a prompt that came from
    other agents is neither reserved nor charged. The declared latency of a deterministic backend passes on
    the event loop's clock. With a ``machine`` clock, events tell how long counting tokens took. With ``durations``, what
    they estimate of a call's time is reserved, and not its deadline. ``plan_key`` is asked at a call for what interceptors may file
    a plan under. Raises ConfigError for an empty mapping of backends.
    """

    def __init__(
        self,
        backends: Mapping[str, LLMBackend],
        guard: Guard,
        *,
        clock: Clock,
        policies: Sequence[Policy] = (),
        interceptors: Sequence[Interceptor] = (),
        on_event: Callable[[Event], None] | None = None,
        retries: int = 2,
        deadline_s: float = 60.0,
        free_messages: bool = False,
        machine: Clock | None = None,
        first_token_s: float | None = None,
        idle_s: float | None = None,
        breakers: Breakers | None = None,
        tokenizers: TokenizerPool | None = None,
        durations: Durations | None = None,
        plan_key: Callable[[], PlanKey] | None = None,
    ) -> None:
        if not backends:
            raise ConfigError("no backend for any role")
        for name, seconds in (("deadline_s", deadline_s), ("first_token_s", first_token_s), ("idle_s", idle_s)):
            if seconds is not None and not 0 < seconds < math.inf:
                raise ConfigError(f"{name} must be a number of seconds above 0, not {seconds!r}")
        held, each = dict(backends), list({id(b): b for b in backends.values()}.values())
        # In closures: no attribute of the service leads to a backend.
        self._backend_of: Callable[[str], LLMBackend | None] = lambda role: held.get(role) or held.get("*")
        self._each: Callable[[], list[LLMBackend]] = lambda: each
        self.backends = sealed_backends(held, self._blocked)
        """The backends under seal, by role: to be looked at, not called."""
        self._guard = guard
        self._policies = tuple(policies)
        self._interceptors = tuple(interceptors)
        self._plan_key = plan_key
        self.stats = CallStats()
        """What happened so far, in plain numbers."""
        self.tokenizers = tokenizers or TokenizerPool(clock=machine)
        """How tokens are counted, and how well."""
        self._own_tokenizers = tokenizers is None
        self._desk = Desk(
            guard,
            clock,
            self.tokenizers,
            self.stats,
            on_event or (lambda event: None),
            deadline_s,
            Stages(first_token_s, idle_s),
            retries,
            free_messages,
            durations,
        )
        self._breakers = breakers
        self._ids = Ids("c")
        self._handles: dict[str, Handle] = {}
        self._streams: set[asyncio.Task[LLMAnswer]] = set()
        self.before_call: Callable[[], Awaitable[None]] | None = None
        """Awaited when a call is reserved and about to be made: what it follows from must be on disk by then."""

    @property
    def ledger(self) -> Ledger:
        """Where calls are reserved and settled."""
        return self._guard.ledger

    # --- calls ----------------------------------------------------------------------------------

    async def ask(
        self,
        tags: CallTags,
        prompt: str,
        *,
        max_tokens: int,
        purpose: str = "",
        seed: int = 0,
        system: str = "",
        message_tokens_text: str = "",
    ) -> LLMAnswer:
        """One call. ``message_tokens_text`` is the part of the prompt that other agents' messages brought.

        A denial is an answer; a failed or timed-out call is a result with that status. Raises ConfigError for a
        role without a backend or ``max_tokens`` < 1; a cancellation passes through, settled.
        """
        request = LLMRequest(prompt, max_tokens, system=system, seed=seed, role=tags.role)
        return await self.generate(tags, request, purpose=purpose, heard=message_tokens_text)

    async def generate(
        self, tags: CallTags, request: LLMRequest, *, purpose: str = "", heard: str = "", least: int | None = None
    ) -> LLMAnswer:
        """One call as it is asked for, the same way as ``ask``; without a ``request_id`` it is given one.

        Where the budget does not pay for ``max_tokens``, but for ``least`` or more, it is asked for what the budget
        pays for. Raises ConfigError also for the ``request_id`` of a call that is under way.
        """
        return await self._call(*self._taken(tags, request, least), purpose, heard, least, None)

    def stream(
        self, tags: CallTags, request: LLMRequest, *, purpose: str = "", heard: str = "", least: int | None = None
    ) -> Stream:
        """One call the same way as ``generate``, its pieces as they come; in one piece where the backend cannot stream.

        Close it when it is not read to its end. Raises ConfigError as ``generate`` does, at once.
        """
        taken = self._taken(tags, request, least)

        def begin(sink: Sink) -> asyncio.Task[LLMAnswer]:
            work = self._call(*taken, purpose, heard, least, sink)
            task = asyncio.get_running_loop().create_task(work)  # it outlives its reader, not its deadline
            self._streams.add(task)
            task.add_done_callback(self._streams.discard)
            task.add_done_callback(lambda _: self._handles.pop(taken[2].request_id, None))  # it may never have begun
            return task

        return Stream(begin)

    def cancel(self, request_id: str) -> bool:
        """End a call: its answer is CANCELLED, and charged. False when no such call is under way."""
        handle = self._handles.get(request_id)
        if handle is None:
            return False
        handle.stop()
        return True

    # --- around calls ---------------------------------------------------------------------------

    async def warm(self, calls: int = 5, *, deadline_s: float = 120.0) -> tuple[BackendWarmed, ...]:
        """Get every backend ready: load, connect, and ``calls`` small calls to each that is a model.

        No metric sees those calls and no episode pays for them; what they took is told, and as events. What fails is
        told, too, and raises nothing.
        """
        told = []
        for backend in self._each():
            number = calls if backend.capabilities.is_llm else 0
            told.append(await warmed(backend, self.tokenizers, self._desk.clock, number, deadline_s))
            self._desk.on_event(told[-1])
        return tuple(told)

    def headroom(self, tags: CallTags) -> dict[str, float]:
        """Scope name -> share of its tokens that such a call could still reserve, in [0, 1]."""
        return self._guard.headroom(tags)

    async def close(self) -> None:
        """End streams that nobody read to their end, and close every backend once."""
        streams = list(self._streams)
        for task in streams:
            task.cancel()
        if streams:
            await asyncio.wait(streams, timeout=1.0)
        if self._own_tokenizers:
            await self.tokenizers.close()
        await close_all(self._each())

    def _blocked(self, role: str, asking: str) -> None:
        self._desk.on_event(DirectCallBlocked("", f"backend {role}", "generate", "", asking))

    # --- one call -------------------------------------------------------------------------------

    def _taken(self, tags: CallTags, request: LLMRequest, least: int | None) -> tuple[CallTags, LLMBackend, LLMRequest]:
        backend = self._backend_of(tags.role)
        if backend is None:
            raise ConfigError(f"no backend for role {tags.role!r}", "name one for '*'")
        for name, tokens in (("max_tokens", request.max_tokens), ("least", least if least is not None else 1)):
            if type(tokens) is not int or tokens < 1:
                raise ConfigError(f"{name} must be an integer >= 1, not {tokens!r}")
        if not request.request_id:
            request = replace(request, request_id=self._ids.next())
        if not request.role:
            request = replace(request, role=tags.role)
        if request.request_id in self._handles:
            raise ConfigError(f"a call {request.request_id!r} is under way", "give every call an id of its own")
        self._handles[request.request_id] = Handle()
        return tags, backend, request

    async def _call(
        self,
        tags: CallTags,
        backend: LLMBackend,
        request: LLMRequest,
        purpose: str,
        heard: str,
        least: int | None,
        sink: Sink | None,
    ) -> LLMAnswer:
        handle = self._handles[request.request_id]

        asked = False

        async def work(passing: Intercepted) -> LLMAnswer:
            nonlocal asked
            asked = True
            return await self._admit(handle, tags, purpose, backend, passing.subject, heard, least, sink)

        try:
            key = self._plan_key() if self._plan_key is not None and self._interceptors else None
            who = (tags.agent_id, tags.role, tags.episode_id, purpose)
            passing = Intercepted(Point.MODEL_CALL, request, *who, key, self._desk.on_event)
            answer: object = await chain(self._interceptors, passing, work)
            if isinstance(answer, LLMResult) and not asked:
                self._desk.on_event(unasked(self.tokenizers, backend, request, tags, purpose, answer))
                if sink is not None and answer.text:
                    sink(answer.text)
        except Exception as error:  # noqa: BLE001 - a plugin's edge: an agent sees a failed call, never an exception
            return failed(error)
        finally:
            self._handles.pop(request.request_id, None)
        if not isinstance(answer, LLMResult | Denied):
            return failed(TypeError(f"an interceptor answered {type(answer).__name__}"))
        return answer

    async def _admit(
        self,
        handle: Handle,
        tags: CallTags,
        purpose: str,
        backend: LLMBackend,
        request: LLMRequest,
        heard: str,
        least: int | None,
        sink: Sink | None,
    ) -> LLMAnswer:
        ends = asyncio.get_running_loop().time() + self._desk.deadline_s
        try:
            async with asyncio.timeout_at(ends) as handle.limit:
                counted = await self.tokenizers.count(backend, request, heard)
        except Exception as error:  # noqa: BLE001 - a plugin's edge: a backend that cannot count is a failed call
            if not isinstance(error, TimeoutError) or handle.limit is None or not handle.limit.expired():
                answer = failed(error)
            else:
                answer = stopped() if handle.stopped else late(self._desk.deadline_s)
            return self._uncounted(tags, purpose, answer)
        finally:
            handle.limit = None
        free = counted.heard if self._desk.free_messages else 0
        if ruling := denial(self._policies, ModelCall(tags.agent_id, tags.role, request)):
            wanted = counted.tokens - free + request.max_tokens
            refused = Denied({ruling[0]: f"policy:{ruling[1]}"}, self._guard.remaining(tags), wanted)
            return self._denied(tags, purpose, refused)
        grant = await self._reserved(tags, backend, request, counted, free)
        if isinstance(grant, Denied) and least is not None:
            cap = self._guard.output_cap(tags, counted.admitted - free, request.max_tokens)
            if cap >= min(least, request.max_tokens):
                request = replace(request, max_tokens=cap)
                grant = await self._reserved(tags, backend, request, counted, free)
        if isinstance(grant, Denied):
            return self._denied(tags, purpose, grant)
        prompt = counted.tokens - free
        breaker = self._breakers.of(backend) if self._breakers is not None else None
        call = Call(self._desk, handle, tags, purpose, backend, request, counted, prompt, grant, ends, breaker, sink)
        return await call.run(self.before_call)

    async def _reserved(
        self, tags: CallTags, backend: LLMBackend, request: LLMRequest, counted: Counted, free: int
    ) -> Grant | Denied:
        limit_ms = math.ceil(self._desk.deadline_s * 1000)
        if self._desk.durations is not None:
            model = backend.capabilities.model_id
            limit_ms = self._desk.durations.estimate(type(backend).__name__, model, limit_ms)
        return await self._guard.admit(
            tags, counted.admitted - free, limit_ms, max_tokens=request.max_tokens, margin=counted.margin
        )

    def _uncounted(self, tags: CallTags, purpose: str, answer: LLMResult) -> LLMResult:
        """A call that ended before anything was reserved for it."""
        self._desk.stats.calls += 1
        self._desk.stats.failures[answer.failure] += 1
        status, failure = str(answer.status), str(answer.failure)
        self._desk.on_event(
            CallSettled(tags.episode_id, tags.agent_id, tags.role, purpose, status, 0, 0, 0, failure=failure)
        )
        return answer

    def _denied(self, tags: CallTags, purpose: str, denied: Denied) -> Denied:
        self._desk.on_event(
            CallDenied(
                tags.episode_id, tags.agent_id, tags.role, purpose, denied.estimate, denied.reasons, denied.remaining
            )
        )
        return denied
