"""Guard 6: no section of a prompt is a burden, and no role could as well be left out."""

from __future__ import annotations

import pytest
from stage import Stage

from apex_framework.analysis import mcnemar_exact
from apex_framework.interfaces import EpisodeResult

ARM = "static:flat"


@pytest.fixture(scope="module")
def whole(mini: Stage) -> dict[str, EpisodeResult]:
    """Episodes with every section and every role."""
    return {task.id: mini.play(task.id, controller=ARM) for task in mini.shop.suite.tasks("dev")}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["SUSPICIOUS", "FAILING", "TRIED"])
def test_a_prompt_without_a_section_does_not_succeed_more_often(
    mini: Stage, whole: dict[str, EpisodeResult], kind: str
) -> None:
    """Beyond luck, that is: eight tasks see a large effect only. Forty are in docs/evidence."""
    less = {task: mini.play(task, controller=ARM, backends={"*": f"blind:{kind}"}) for task in whole}
    gained = sum(less[t].record["success"] and not whole[t].record["success"] for t in whole)
    lost = sum(whole[t].record["success"] and not less[t].record["success"] for t in whole)
    assert gained <= lost or mcnemar_exact(gained, lost) > 0.05, f"{gained} tasks gained, {lost} lost"
    assert gained <= lost + 1
    assert any(less[t].record["tokens"] != whole[t].record["tokens"] for t in whole), "the section is never there"


@pytest.mark.slow
@pytest.mark.parametrize("role", ["planner", "coder", "runner", "summarizer"])
def test_a_role_that_only_passes_on_changes_outcomes(mini: Stage, whole: dict[str, EpisodeResult], role: str) -> None:
    def outcome(result: EpisodeResult) -> tuple[object, ...]:
        return result.patch, result.record["success"], result.record["steps"]

    assert any(outcome(mini.play(t, controller=ARM, team=f"swe_mute:{role}")) != outcome(whole[t]) for t in whole)


def test_the_critic_stops_a_change_that_only_pleases_the_tests(ears: Stage) -> None:
    """The embedded solver hardly ever proposes such a change, so on real code the critic changes no outcome."""
    cheated = {"backends": {"coder": "cheating", "*": "repair"}, "controller": "static:chain", "max_steps": 40}
    with_critic = ears.play("roman", **cheated)
    without = ears.play("roman", team="swe_mute:critic", **cheated)
    assert without.record["overfit"] and without.record["reason"] == "change accepted"
    assert with_critic.patch != without.patch or with_critic.record["steps"] > without.record["steps"]
