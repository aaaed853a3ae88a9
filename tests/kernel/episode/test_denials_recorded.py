"""A refused call is part of a transition (BUD-11): its estimate in the outcome, no model call, the next state after it."""

from __future__ import annotations

import pytest
from stage import Stage

from apex_framework.episode.watch import Watch
from apex_framework.events import CallDenied, CallSettled
from apex_framework.interfaces import EpisodeResult

SETTINGS = [("roman", 300, None), ("roman", 1_500, None), ("roman", 1_500, 10), ("clamp", 700, 7)]


def played(
    stage: Stage, task: str, budget: int, size: int | None, controller: str = "random_switch:1.0"
) -> EpisodeResult:
    return stage.play(task, 3, {"transitions": True}, controller=controller, budget=budget, team_size=size)


def check(result: EpisodeResult) -> None:
    """The transitions hold every refusal with its estimate, once, and go on from the state after it."""
    refused = [row for row in result.calls if row["event"] == "CallDenied"]
    assert refused
    outcomes = [transition.outcome for transition in result.transitions]
    assert sum(outcome.denied for outcome in outcomes) == len(refused)
    assert sum(outcome.denied_tokens for outcome in outcomes) == sum(row["estimate"] for row in refused)
    for transition in result.transitions:
        outcome, after = transition.outcome, transition.next_observation
        assert bool(outcome.denied) == bool(outcome.denied_tokens)
        assert outcome.terminal == (after is None)
        if after is not None:
            assert after.denied == transition.observation.denied + outcome.denied
            assert after.tokens_used == transition.observation.tokens_used + outcome.tokens


@pytest.mark.parametrize(("task", "budget", "size"), SETTINGS)
def test_every_refusal_is_in_the_transition_of_its_interval(
    stage: Stage, task: str, budget: int, size: int | None
) -> None:
    check(played(stage, task, budget, size))


def test_an_episode_that_is_refused_everything_has_transitions_and_no_model_call(stage: Stage) -> None:
    result = played(stage, "roman", 60, None, "static:star")
    check(result)
    assert result.record["calls"] == result.record["tokens"] == 0
    assert all(row["event"] == "CallDenied" for row in result.calls)
    assert sum(transition.outcome.tokens for transition in result.transitions) == 0


def test_a_dropped_signal_is_caught(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Watch.called

    def deaf(self: Watch, event: CallSettled | CallDenied) -> None:
        if isinstance(event, CallSettled):
            heard(self, event)

    monkeypatch.setattr(Watch, "called", deaf)
    with pytest.raises(AssertionError):
        check(played(stage, *SETTINGS[1]))


def test_a_signal_without_its_size_is_caught(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Watch.called

    def coarse(self: Watch, event: CallSettled | CallDenied) -> None:
        before = self.denied_tokens
        heard(self, event)
        self.denied_tokens = before + isinstance(event, CallDenied)

    monkeypatch.setattr(Watch, "called", coarse)
    with pytest.raises(AssertionError):
        check(played(stage, *SETTINGS[1]))
