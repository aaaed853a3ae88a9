"""BanditSwitch v1 (CTL-1 to CTL-4): features, masks, exploration, credit, saved state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apex_controllers.bandit_v1 import BanditV1
from apex_controllers.exploration import LinearDecay, epsilon_greedy
from apex_controllers.features import bandit_features, feature_names
from apex_controllers.per_episode import PerEpisode
from apex_controllers.reward import RewardWeights, credited_returns
from apex_framework.analysis import checkpoint_bytes, read_checkpoint, write_checkpoint
from apex_framework.errors import ArtifactError, ConfigError
from apex_framework.interfaces import STAY, Decision, EpisodeContext, Observation, Outcome, Transition

SET = ("star", "chain", "flat")
TRAINING = EpisodeContext("e", 7, SET, 10_000, frozen=False)
FROZEN = replace(TRAINING, frozen=True)
MIDWAY = Observation(
    step=6,
    topology="chain",
    topologies=SET,
    steps_since_switch=3,
    recent_roles=("planner", "coder", "tester", "critic", "summarizer"),
    tokens_used=2_500,
    token_budget=10_000,
)


def bandit(context: EpisodeContext = TRAINING) -> BanditV1:
    controller = BanditV1("none")
    controller.begin(context)
    return controller


def episode(controller: BanditV1, actions: Sequence[str], *, success: bool, tokens: int = 1_000) -> None:
    topology = ""
    for i, action in enumerate(actions):
        observation = replace(MIDWAY, topology=topology, step=i) if topology else Observation(0, "", SET)
        last = i == len(actions) - 1
        outcome = Outcome(tokens=tokens, terminal=last, success=last and success)
        controller.learn(Transition(observation, Decision(action), outcome))
        topology = action if action != STAY else topology


def test_there_are_exactly_eight_features_for_three_topologies() -> None:
    assert bandit_features(MIDWAY, SET, k_dwell=4) == [0.0, 1.0, 0.0, 0.75, 0.2, 0.4, 0.2, 0.75]
    assert len(feature_names(SET)) == 8
    assert len(bandit_features(MIDWAY, (*SET, "ring"), k_dwell=4)) == 9


@given(
    roles=st.lists(st.sampled_from(["planner", "manager", "coder", "runner", "tester", "critic", "x"]), max_size=10),
    used=st.integers(0, 30_000),
    since=st.integers(0, 50),
    topology=st.sampled_from(["", *SET]),
)
def test_every_feature_is_between_zero_and_one(roles: list[str], used: int, since: int, topology: str) -> None:
    observation = replace(
        MIDWAY, recent_roles=tuple(roles), tokens_used=used, steps_since_switch=since, topology=topology
    )
    assert all(0.0 <= x <= 1.0 for x in bandit_features(observation, SET, k_dwell=4))


def test_the_current_topology_is_masked_as_an_alias_of_stay() -> None:
    assert set(bandit(FROZEN).decide(MIDWAY).scores) == {STAY, "star", "flat"}


def test_decision_0_offers_topologies_only() -> None:
    assert set(bandit(FROZEN).decide(Observation(0, "", SET, can_switch=False)).scores) == set(SET)


def test_only_stay_while_no_switch_is_possible() -> None:
    controller = bandit()
    for _ in range(50):
        decision = controller.decide(replace(MIDWAY, can_switch=False))
        assert (decision.action, decision.propensity) == (STAY, 1.0)


def test_epsilon_falls_from_a_fifth_to_a_twentieth_over_five_thousand_decisions() -> None:
    decay = LinearDecay()
    assert [decay.at(n) for n in (0, 2_500, 5_000, 90_000)] == pytest.approx([0.2, 0.125, 0.05, 0.05])
    controller = bandit()
    assert controller.decide(MIDWAY).epsilon == 0.2
    for _ in range(2_500):
        controller.update([0.0] * 8, 0, 0.0)
    assert controller.decide(MIDWAY).epsilon == pytest.approx(0.125)
    controller.begin(FROZEN)
    assert controller.decide(MIDWAY).epsilon == 0.0


@given(
    st.dictionaries(st.sampled_from("abcde"), st.sampled_from([0.0, 0.5, 1.0]), min_size=1),
    st.floats(0.0, 1.0),
)
def test_propensities_of_all_actions_add_up_to_one(scores: dict[str, float], epsilon: float) -> None:
    from random import Random

    found = {}
    for seed in range(300):
        action, propensity = epsilon_greedy(scores, epsilon, Random(seed))
        found[action] = propensity
    greedy = [a for a, s in scores.items() if s == max(scores.values())]
    expected = {a: epsilon / len(scores) + (1 - epsilon) * (a in greedy) / len(greedy) for a in scores}
    assert sum(expected.values()) == pytest.approx(1.0)
    assert all(found[a] == pytest.approx(expected[a]) for a in found)


def test_propensity_includes_the_greedy_mass() -> None:
    controller = bandit()
    controller.update([0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], 3, 1.0)
    seen = {d.action: d.propensity for d in (controller.decide(MIDWAY) for _ in range(200))}
    epsilon = controller.decide(MIDWAY).epsilon
    assert seen["flat"] == pytest.approx(1 - epsilon + epsilon / 3)
    assert seen[STAY] == seen["star"] == pytest.approx(epsilon / 3)


def test_reward_parts_are_apart_and_each_coefficient_is_an_option() -> None:
    controller = BanditV1("none", reward={"deny": -2.0})
    outcome = Outcome(
        tokens=2_000,
        pass_rate_delta=0.5,
        phase_advanced=True,
        switched=True,
        denied=1,
        denied_tokens=500,
        terminal=True,
        success=True,
    )
    parts = controller.reward_parts(Transition(MIDWAY, Decision("flat"), outcome), TRAINING)
    assert parts == pytest.approx(
        {"phase": 0.3, "pass_rate": 0.35, "tokens": -0.2, "switch": -0.05, "deny": -0.1, "terminal": 1.0}
    )
    with pytest.raises(ConfigError, match="unknown reward coefficient"):
        BanditV1("none", reward={"fame": 1.0})


def test_the_starting_topology_costs_no_switch() -> None:
    start = Transition(Observation(0, "", SET), Decision("star"), Outcome(switched=True))
    assert bandit().reward_parts(start, TRAINING)["switch"] == 0.0


def test_the_terminal_bonus_reaches_all_decisions_discounted_per_step() -> None:
    assert credited_returns([0.1, 0.2, 0.3], [2, 3, 1], bonus=1.0, gamma=0.5) == pytest.approx(
        [0.1 + 0.5**4, 0.2 + 0.5, 0.3 + 1.0]
    )
    assert RewardWeights().gamma == 0.97


def test_learning_waits_for_the_end_of_the_episode() -> None:
    controller = bandit()
    before = controller.save()
    controller.learn(Transition(MIDWAY, Decision(STAY), Outcome(tokens=500)))
    assert controller.save() == before
    controller.begin(TRAINING)  # the episode was lost: it teaches nothing
    episode(controller, ["star", STAY], success=True)
    assert controller.trained and controller.save().meta["decisions"] == 2


def test_an_action_that_names_the_current_topology_counts_as_stay() -> None:
    one, other = bandit(), bandit()
    for controller, action in ((one, "chain"), (other, STAY)):
        controller.learn(Transition(MIDWAY, Decision(action), Outcome(tokens=500, terminal=True)))
    assert one.save() == other.save()


def test_denials_and_aborted_switches_are_learned_from() -> None:
    for outcome in (Outcome(denied=1, denied_tokens=5_000, terminal=True), Outcome(aborted=True, terminal=True)):
        controller = bandit()
        controller.learn(Transition(MIDWAY, Decision("flat"), outcome))
        assert controller.save().meta["decisions"] == 1
    controller.learn(Transition(MIDWAY, Decision("flat"), Outcome(denied_tokens=5_000, terminal=True)))
    assert controller.decide(MIDWAY).scores["flat"] < 0.0


def test_it_learns_which_topology_to_start_with() -> None:
    controller = bandit()
    for seed in range(20):
        controller.begin(replace(TRAINING, seed=seed))
        episode(controller, ["flat"], success=True)
        episode(controller, ["star"], success=False)
    controller.begin(FROZEN)
    start = Observation(0, "", SET, tokens_used=0, token_budget=10_000)
    assert controller.decide(start).action == "flat"


def test_the_specified_methods_work_on_plain_features() -> None:
    controller = BanditV1("none")
    features = [1.0, 0.0, 0.0, 0.5, 0.2, 0.4, 0.2, 0.9]
    for _ in range(30):
        controller.update(features, 2, 1.0)
    chosen = [controller.decide_features(features) for _ in range(100)]
    assert all(c["action"] != 1 for c in chosen)  # star is where it is
    assert sum(c["action"] == 2 for c in chosen) > 60
    assert chosen[0]["epsilon"] == pytest.approx(0.2 - 0.15 * 30 / 5_000)


def test_a_policy_survives_the_disk_bit_for_bit(tmp_path: Path) -> None:
    controller = bandit()
    episode(controller, ["star", STAY, "flat"], success=True)
    saved = controller.save()
    write_checkpoint(tmp_path / "p.npz", saved, {"seed": 1})
    other = BanditV1(tmp_path / "p.npz")
    other.begin(FROZEN)
    assert checkpoint_bytes(other.save()) == checkpoint_bytes(saved) == (tmp_path / "p.npz").read_bytes()
    assert other.save().meta == saved.meta


def test_a_policy_for_other_topologies_is_refused(tmp_path: Path) -> None:
    controller = bandit()
    episode(controller, ["star"], success=True)
    write_checkpoint(tmp_path / "p.npz", controller.save())
    other = BanditV1(tmp_path / "p.npz")
    with pytest.raises(ConfigError, match="its policy is for star,chain,flat"):
        other.begin(replace(FROZEN, topologies=("ring", "star")))
    with pytest.raises(ValueError, match="not a per_episode policy"):
        PerEpisode("none").load(controller.save())


def test_a_missing_or_damaged_policy_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="cannot read the policy"):
        BanditV1(tmp_path / "none.npz")
    controller = bandit()
    episode(controller, ["star"], success=True)
    write_checkpoint(tmp_path / "p.npz", controller.save())
    settings = (tmp_path / "p.json").read_text().replace('"decisions": 1', '"decisions": 2')
    (tmp_path / "p.json").write_text(settings)
    with pytest.raises(ArtifactError, match="digest"):
        read_checkpoint(tmp_path / "p.npz")


def test_a_topology_set_without_a_policy_starts_untrained() -> None:
    controller = BanditV1()
    controller.begin(replace(FROZEN, topologies=("ring", "star")))
    assert not controller.trained
    assert controller.decide(Observation(0, "", ("ring", "star"))).action in ("ring", "star")


def test_training_again_gives_the_same_bits() -> None:
    saved = []
    for _ in range(2):
        controller = bandit()
        for seed in range(5):
            controller.begin(replace(TRAINING, seed=seed))
            start = controller.decide(Observation(0, "", SET)).action
            episode(controller, [start, controller.decide(MIDWAY).action], success=seed % 2 == 0)
        saved.append(checkpoint_bytes(controller.save()))
    assert saved[0] == saved[1]
