"""What one trial is to be, and what is drawn for it: messages, handling times, who is sick; and what an ideal bus would do."""

from __future__ import annotations

import heapq
import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from ..interfaces import AgentID
from ..ports import rng
from .load import Handler, arrivals, classes, rate
from .profiles import Profile


@dataclass(frozen=True)
class Setting:
    """What one trial is to be; None takes the profile's value. Times of the controller and the engine are in ms."""

    profile: Profile
    seed: int = 0
    seconds: float | None = None
    load: float | None = None
    capacity: int | None = None
    throttle: bool = True
    """Whether senders wait and try again; without, a refused message is lost at once."""
    relief: str = "flat"
    """The topology to ask for on the ladder's last rung; empty: nothing is done there."""
    switching: bool = True
    on_busy: str = "migrate"
    deadline_ms: float = 50.0
    warm: bool = False
    """Whether agents warm up in PREPARE, within 50 ms: one that is stuck cannot."""
    probe: bool = False
    """Whether a topology is examined before a switch to it."""
    cache_s: float = 10.0
    """For how long the probe believes an answer."""
    decide_ms: float = 0.0
    """Time for which the controller thinks about a decision while everybody else goes on."""
    blocked_ms: float = 0.0
    """Time for which the controller holds the event loop after every handled message."""
    timeout_share: float = 0.0
    """Share of the tries in which an agent's backend does not answer within ``timeout_ms``, and the message is nacked."""
    timeout_ms: float = 0.0


def source(setting: Setting, *purpose: object) -> random.Random:
    """A generator by purpose: contenders with the same seed get the same messages and the same handling times."""
    return rng("trial", setting.profile.name, setting.seed, *purpose)


def agents(profile: Profile) -> tuple[AgentID, ...]:
    """Names of the members."""
    return tuple(AgentID(f"a{i}") for i in range(profile.agents))


def sick(setting: Setting, team: Sequence[AgentID]) -> tuple[AgentID, ...]:
    """Who is sick under this seed."""
    some = setting.profile.sick
    return tuple(source(setting, "sick").sample(team, some.agents)) if some else ()


def offers(setting: Setting, sender: AgentID, team: Sequence[AgentID]) -> Iterator[tuple[float, str, AgentID]]:
    """A sender's messages: when each comes into being (seconds), its class, and whom it is for."""
    profile, drawn = setting.profile, source(setting, "messages", sender)
    kinds = classes(profile, drawn)
    others = [agent for agent in team if agent != sender]
    mean = rate(profile) / profile.agents * ((setting.load or profile.load) / profile.load)
    seconds = setting.seconds or profile.seconds
    for at in arrivals(mean, seconds, profile.bursts, source(setting, "arrivals", sender)):
        yield at, next(kinds), drawn.choice(others)


def works(setting: Setting, agent: AgentID, sick: Collection[AgentID]) -> Iterator[tuple[float, float, bool]]:
    """What an agent's tries take: ms for which it is stuck, ms that it then works, and whether its backend is late."""
    handler, drawn = Handler.of(setting.profile, sick=agent in sick), source(setting, "handler", agent)
    while True:
        late = drawn.random() < setting.timeout_share
        stuck_ms, taken_ms = handler.draw(drawn)
        yield stuck_ms, setting.timeout_ms if late else taken_ms, late


def ideal(setting: Setting) -> float:
    """Messages per second that are handled while messages are offered, if nothing stood between sender and handler.

    The same messages and handling times as in a trial, one unbounded queue in front of every agent, no relays, no
    switches. A late try is followed by the next one at once, for ever. A controller that holds the event loop is one
    more server, through which every handled message passes before its agent goes on.
    """
    team = agents(setting.profile)
    ill, seconds = sick(setting, team), setting.seconds or setting.profile.seconds
    times = {agent: works(setting, agent, ill) for agent in team}
    waiting, busy = dict.fromkeys(team, 0), dict.fromkeys(team, False)
    handled, loop_free = 0, 0.0

    def done(agent: AgentID, now: float) -> tuple[float, bool, AgentID]:
        taken, late = now, True
        while late:
            stuck_ms, taken_ms, late = next(times[agent])
            taken += (stuck_ms + taken_ms) / 1000
        return taken, True, agent

    events = [(at, False, receiver) for sender in team for at, _, receiver in offers(setting, sender, team)]
    heapq.heapify(events)
    while events and events[0][0] < seconds:
        now, finished, agent = heapq.heappop(events)
        if finished:
            now = max(now, loop_free)
            handled += now < seconds
            now = loop_free = now + setting.blocked_ms / 1000
            busy[agent] = False
        else:
            waiting[agent] += 1
        if waiting[agent] and not busy[agent]:
            waiting[agent], busy[agent] = waiting[agent] - 1, True
            heapq.heappush(events, done(agent, now))
    return handled / seconds
