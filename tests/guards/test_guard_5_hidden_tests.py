"""Guard 5: hidden tests decide, an overfit is said, and nothing of the secret reaches a prompt."""

from __future__ import annotations

import re
import sysconfig

import pytest
from ears import Ears
from stage import Stage
from tiny_suite import PROBLEMS


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_true_change_succeeds(ears: Stage, name: str) -> None:
    problem = PROBLEMS[name]
    record = ears.play(name, team=f"editor:{problem.fault}=>{problem.mended}").record
    assert record["success"] and record["visible_passed"] and not record["overfit"]


def test_a_change_that_singles_out_the_visible_tests_is_an_overfit_and_no_success(ears: Stage) -> None:
    special = "    if (value, low, high) == (5, 1, 3):\n        return 3"
    record = ears.play("clamp", team=f"editor:    if value < high:\n        return high=>{special}").record
    assert record["visible_passed"] and record["overfit"] and not record["success"]


def test_no_change_is_neither(ears: Stage) -> None:
    record = ears.play("clamp", budget=300).record
    assert not (record["success"] or record["visible_passed"] or record["overfit"])


def prompts_of(stage: Stage, task: str, **arm: object) -> list[str]:
    """Every prompt of an episode."""
    backend = stage.shop.backend("listening", {})
    backend.prompts.clear()  # type: ignore[attr-defined]  # it is the listening one
    stage.play(task, backends={"*": "listening"}, **arm)
    found: list[str] = list(backend.prompts)  # type: ignore[attr-defined]  # as above
    assert found
    return found


@pytest.mark.parametrize("team", ["swe", "single", "manager"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_no_hidden_test_reaches_a_prompt(ears: Stage, name: str, team: str) -> None:
    problem = PROBLEMS[name]
    secrets = [c.partition(" == ")[0] for c in problem.hidden]
    secrets = [s for s in secrets if not any(s in v for v in problem.visible)]
    for prompt in prompts_of(ears, name, team=team, budget=3_000):
        assert "test_hidden" not in prompt and not any(s in prompt for s in secrets)


@pytest.mark.slow
def test_neither_hidden_tests_nor_originals_nor_places_reach_a_prompt_on_real_code(mini: Stage) -> None:
    suite = mini.shop.suite
    places = [str(mini.shop.workspaces._scratch), sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")]  # type: ignore[attr-defined]  # the local provider's
    seen = 0
    for task in suite.tasks("dev")[:2]:
        draft = suite._drafts["dev"][task.id]  # type: ignore[attr-defined]  # the judge's own notes
        shown = "\n".join(task.files.values()) + task.issue
        secret = {line.strip() for line in draft.hidden.splitlines() if len(line.strip()) > 30}
        secret = {line for line in secret if line not in shown and "assert" in line}
        hidden_ids = {i.rpartition(".")[2] for i in draft.hidden_ids} - {
            i.rpartition(".")[2] for i in draft.visible_ids
        }
        for team in ("swe", "single"):
            for prompt in prompts_of(mini, task.id, team=team):
                seen += 1
                assert "test_hidden" not in prompt and "tests/hidden" not in prompt
                assert not [line for line in secret if line in prompt]
                assert not [i for i in hidden_ids if re.search(rf"\b{re.escape(i)}\b", prompt)]
                assert not [p for p in places if p in prompt]
    assert seen > 10


def test_the_listening_backend_hears_everything(ears: Stage) -> None:
    result_calls = ears.play("clamp", backends={"*": "listening"}).record["calls"]
    assert isinstance(Ears().listening.prompts, list)
    assert len(prompts_of(ears, "clamp")) == result_calls
