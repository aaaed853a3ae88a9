"""A stranger's plugin whose pieces break, each at another place; and the tiny suite, so that workers can find both."""

from __future__ import annotations

from typing import Any

from tiny_suite import TinySuite

from apex_framework.hookspecs import ApexSpec, hookimpl
from apex_framework.interfaces import STAY, Decision, Verdict


class Good:
    """A controller of which the others break one thing."""

    name = "good"

    def begin(self, episode: Any) -> None: ...

    def decide(self, observation: Any) -> Any:
        return Decision(STAY if observation.topology else "star")

    def learn(self, transition: Any) -> None: ...


class BeginBreaks(Good):
    def begin(self, episode: Any) -> None:
        raise RuntimeError("begin is broken")


class FirstBreaks(Good):
    def decide(self, observation: Any) -> Any:
        raise RuntimeError("the first decision is broken")


class LaterBreaks(Good):
    def decide(self, observation: Any) -> Any:
        if observation.step > 2:
            raise RuntimeError("a later decision is broken")
        return super().decide(observation)


class LearnBreaks(Good):
    def learn(self, transition: Any) -> None:
        raise RuntimeError("learn is broken")


class NoDecision(Good):
    def decide(self, observation: Any) -> Any:
        return "star"


class Elsewhere(Good):
    def decide(self, observation: Any) -> Any:
        return Decision("moebius")


class RosterBreaks:
    name = "roster_breaks"

    def roster(self, size: int | None = None) -> Any:
        raise RuntimeError("the roster is broken")

    def agents(self, roster: Any, brief: Any) -> Any: ...

    def tools(self, role: str) -> frozenset[str]:
        return frozenset()


class AgentsBreak(RosterBreaks):
    def roster(self, size: int | None = None) -> Any:
        from apex_framework.interfaces import AgentID, Member, Roster

        return Roster((Member(AgentID("a"), "a"), Member(AgentID("b"), "b")), AgentID("a"))

    def agents(self, roster: Any, brief: Any) -> Any:
        raise RuntimeError("the agents are broken")


class TasksBreak(TinySuite):
    def tasks(self, split: str) -> Any:
        raise RuntimeError("the tasks are broken")


class GradeBreaks(TinySuite):
    def grade(self, task: Any, workspace: Any) -> Any:
        raise RuntimeError("the judge is broken")


class NobodyJudges(TinySuite):
    def grade(self, task: Any, workspace: Any) -> Any:
        return Verdict(True, "tiny/hidden", True, infrastructure_error="no judge at home")


class RoutesBreak:
    name = "routes_break"

    def routes(self, roster: Any) -> Any:
        raise RuntimeError("the routes are broken")


class Plugin(ApexSpec):
    """Registers all of them."""

    @hookimpl
    def apex_controllers(self, add: Any) -> None:
        for made in (Good, BeginBreaks, FirstBreaks, LaterBreaks, LearnBreaks, NoDecision, Elsewhere):
            add(made.__name__, made)
        add("OfAnotherKind", RoutesBreak)

    @hookimpl
    def apex_teams(self, add: Any) -> None:
        add("RosterBreaks", RosterBreaks)
        add("AgentsBreak", AgentsBreak)

    @hookimpl
    def apex_topologies(self, add: Any) -> None:
        add("routes_break", RoutesBreak)

    @hookimpl
    def apex_suites(self, add: Any) -> None:
        add("tiny", TinySuite)
        for made in (TasksBreak, GradeBreaks, NobodyJudges):
            add(made.__name__, made)


plugin = Plugin()
