"""The heuristic phase: every phase can be reached and left, and a tie keeps it (CTL-5)."""

from __future__ import annotations

from stage import Stage

from apex_framework.episode.phases import PhaseTracker


def after(*events: str) -> list[str]:
    """Phases after each step; an event is a role, with ``+edit``, ``+fail`` or ``+pass`` for what it did before."""
    tracker, phases = PhaseTracker(), []
    for event in events:
        role, *deeds = event.split("+")
        for deed in deeds:
            if deed == "edit":
                tracker.edited()
            else:
                tracker.tested(deed == "pass")
        phases.append(tracker.stepped(role))
    return phases


def test_an_episode_begins_with_planning_and_a_first_failing_run_does_not_end_it() -> None:
    assert after("planner", "runner+fail", "coder") == ["planning"] * 3


def test_a_change_and_its_failing_test_lead_to_implementation_and_then_to_debug() -> None:
    work = ("planner", "coder", "runner+edit+fail", "coder", "runner+edit+fail", "coder", "runner+edit+fail")
    assert after(*work) == ["planning"] * 2 + ["implementation"] * 2 + ["debug"] * 3


def test_changes_that_pass_do_not_lead_to_debug() -> None:
    assert after("planner", "coder", *["runner+edit+pass", "coder"] * 3)[2:] == ["implementation"] * 6


def test_critics_lead_to_debug() -> None:
    assert after("critic") == ["debug"]


def test_planners_lead_back_to_planning() -> None:
    work = ("planner", "coder", "runner+edit+fail", "runner+edit+fail")
    assert after(*work, "planner", "planner", "planner") == [
        *["planning"] * 2, "implementation", *["debug"] * 3, "planning"
    ]  # fmt: skip


def test_phases_that_were_reached_for_the_first_time_are_counted_once() -> None:
    tracker = PhaseTracker()
    for _ in range(3):
        for role in ("planner", "planner", "coder", "runner", "coder", "runner"):
            if role == "runner":
                tracker.edited()
                tracker.tested(False)
            tracker.stepped(role)
    assert tracker.advanced == 2


def test_a_schedule_visits_the_topology_of_every_phase(stage: Stage) -> None:
    result = stage.play("roman", controller="schedule:star,flat,chain", budget=5_000)
    assert [row["target"] for row in result.switches][:2] == ["flat", "chain"]
