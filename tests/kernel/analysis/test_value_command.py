"""apex value on logs of the shipped controllers: what a log tells is used, what it does not tell is refused."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apex_framework.analysis import logged_episodes, off_policy_value, read_run
from apex_framework.cli.boundary import run
from apex_framework.episode.deciding import LOGGED
from apex_framework.errors import NotComparableError
from apex_framework.interfaces import STAY, Decision, EpisodeContext, Observation, Transition
from apex_framework.plugins import load_plugins

TOPOLOGIES = ("star", "chain", "flat")
DWELL = COOLDOWN = 2
STEPS = 6
BUDGET = 10_000


PHASES = ("planning", "implementation", "debug")


def log_of(path: Path, name: str, episodes: int, *, online: bool = False, full: bool = False, **options: Any) -> Path:
    """A run folder of one arm whose episodes are a toy: flat at the start helps, and so does never switching.

    ``full`` logs the whole observation, as runs do; without, as runs did once.
    """
    controller = load_plugins(environ={"APEX_PLUGINS": ""}).catalog.make("controller", name, **options)
    rng = random.Random(5)
    rows: list[dict[str, Any]] = []
    decisions: list[dict[str, Any]] = []
    switches: list[dict[str, Any]] = []
    for number in range(episodes):
        key = {"arm": "log", "task_id": f"t{number}", "seed": 0}
        controller.begin(EpisodeContext("e", number, TOPOLOGIES, BUDGET, DWELL, frozen=not online))
        topology, since, attempt, done, tokens = "", 0, COOLDOWN, 0, 0
        roles: list[str] = []
        start = ""
        pending = None
        for step in range(STEPS):
            if step:
                roles.append(rng.choice(["planner", "coder", "runner", "critic", "summarizer"]))
                tokens += rng.randrange(900)
                since, attempt = since + 1, attempt + 1
            can = not topology or (since >= DWELL and attempt >= COOLDOWN)
            seen = Observation(
                step, topology, TOPOLOGIES, epoch=done, steps_since_switch=since, switches=done, can_switch=can,
                recent_roles=tuple(roles[-10:]), tokens_used=tokens, token_budget=BUDGET, phase=PHASES[step // 4],
            )  # fmt: skip
            decision = controller.decide(seen)
            decisions.append(
                {
                    **key,
                    "step": step,
                    "topology": topology,
                    "action": decision.action,
                    "propensity": decision.propensity,
                    "epsilon": decision.epsilon,
                    "scores": dict(decision.scores),
                    "features": list(decision.features),
                    **({"observation": {name: getattr(seen, name) for name in LOGGED}} if full else {}),
                }
            )
            if not topology:
                topology = start = decision.action
                continue
            wish = decision.action if decision.action != STAY else pending
            if wish and wish != topology and can:
                done, since, attempt, pending = done + 1, 0, 0, None
                line = {"step": step, "origin": topology, "target": wish, "ok": True, "epoch": done}
                switches.append({**key, **line})
                topology = wish
        chance = 0.3 + 0.4 * (start == "flat") - 0.1 * (done > 0)
        rows.append(
            {
                **key,
                "success": rng.random() < chance,
                "tokens": tokens,
                "steps": STEPS,
                "switches": done,
                "denied": 0,
                "status": "done",
                "cluster": f"m{number % 40}",
                "suite_digest": "d",
            }
        )
    path.mkdir()
    setting = {
        "name": "log", "team": "swe", "controller": name, "controller_options": options, "topologies": list(TOPOLOGIES),
        "budget": BUDGET, "dwell": DWELL, "cooldown": COOLDOWN, "online": online,
    }  # fmt: skip
    plan = {
        "suite": "toy",
        "split": "dev",
        "suite_digest": "d",
        "tasks": [[r["task_id"], r["cluster"], ""] for r in rows],
        "arms": [setting],
        "seeds": [0],
    }
    (path / "run.json").write_text(json.dumps({"format": 1, "plan": plan}))
    for file, lines in (("episodes", rows), ("decisions", decisions), ("switches", switches)):
        (path / f"{file}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def value_of(folder: Path, name: str, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    assert run(["--json", "value", str(folder), "--controller", name, *more]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def edit(folder: Path, file: str, change: Callable[[dict[str, Any]], object], number: int = 0) -> None:
    path = folder / file
    lines = path.read_text().splitlines()
    row = json.loads(lines[number])
    change(row)
    lines[number] = json.dumps(row)
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def random_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return log_of(tmp_path_factory.mktemp("log") / "r", "random_switch:0.2", 320)


def test_statics_are_valued_from_a_log_of_random_switches(random_log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flat = value_of(random_log, "static:flat", capsys)
    star = value_of(random_log, "static:star", capsys)
    for found, truth in ((flat, 0.7), (star, 0.3)):
        dr = next(e for e in found["estimates"] if e["name"] == "dr")
        assert dr["interval"]["low"] < truth < dr["interval"]["high"]
        assert dr["value"] == pytest.approx(truth, abs=0.15)
        assert found["overlap"]["unsupported"] == found["overlap"]["unknown"] == 0
        assert found["overlap"]["mean_weight"] == pytest.approx(1.0, abs=0.25)
    assert flat["lift"]["value"] > 0.1 > star["lift"]["value"]
    assert all(e["method"] for e in flat["estimates"])


def test_the_logging_controller_gets_weight_one_everywhere(
    random_log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = value_of(random_log, "random_switch:0.2", capsys)
    assert found["overlap"]["effective"] == pytest.approx(320)
    assert found["estimates"][0]["value"] == pytest.approx(found["logged_value"])


def test_a_controller_with_features_is_valued_from_a_log_that_has_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The observation made from the log gives back every logged feature, or the command would refuse."""
    folder = log_of(tmp_path / "r", "bandit_v1", 30, online=True, epsilon_start=1.0, epsilon_end=1.0)
    found = value_of(folder, "bandit_v1", capsys)
    assert found["overlap"]["weighted"] > 0
    assert any("online" in w for w in found["warnings"])
    # A planted fault: one logged feature is another one.
    edit(folder, "decisions.jsonl", lambda row: row["features"].__setitem__(3, 0.123), 4)
    assert run(["value", str(folder), "--controller", "bandit_v1"]) == 3
    assert "not those of what was seen" in capsys.readouterr().err


@pytest.fixture(scope="module")
def full_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return log_of(tmp_path_factory.mktemp("log") / "full", "random_switch:0.3", 90, full=True)


@pytest.mark.parametrize(
    "name",
    [
        *("bandit_v1", "linucb", "thompson", "per_episode", "random_switch:0.1", "random_switch:0.01"),
        *("phase_heuristic", "schedule:star,chain,flat", "static:chain"),
    ],
)
def test_every_controller_is_valued_from_a_log_of_random_switches(
    full_log: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    overlap = value_of(full_log, name, capsys)["overlap"]
    assert overlap["weighted"] > 0 and overlap["unsupported"] == overlap["unknown"] == 0


class Stranger:
    """Decides on what no built-in controller looks at, and by chance."""

    name = "stranger"

    def begin(self, episode: EpisodeContext) -> None:
        self.random = random.Random(episode.seed)

    def decide(self, observation: Observation) -> Decision:
        calm = not observation.shed and observation.pass_rate is None and not observation.headroom
        if not observation.topology:
            return Decision(self.random.choice(observation.topologies), propensity=1 / len(observation.topologies))
        if not observation.can_switch or self.random.random() < 0.75:
            return Decision(STAY, propensity=0.75 if observation.can_switch else 1.0)
        others = [t for t in observation.topologies if t != observation.topology]
        return Decision(others[0] if calm else STAY, propensity=0.25)

    def learn(self, transition: Transition) -> None:
        pass


def test_a_strangers_controller_is_valued_with_public_names(full_log: Path, random_log: Path) -> None:
    found = off_policy_value(logged_episodes(read_run(full_log), "log", Stranger), target="stranger", logged="log")
    assert found.overlap.weighted > 10 and found.overlap.unsupported == 0
    with pytest.raises(NotComparableError, match="decides on 'shed', which this log does not hold"):
        logged_episodes(read_run(random_log), "log", Stranger)


def test_a_log_of_an_exploring_controller_without_learning_is_checked_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = log_of(tmp_path / "r", "bandit_v1", 120, online=True, full=True, epsilon_start=1.0, epsilon_end=1.0)
    assert value_of(folder, "phase_heuristic", capsys)["overlap"]["unsupported"] == 0
    edit(folder, "decisions.jsonl", lambda row: row["observation"].__setitem__("tokens_used", 9_999), 4)
    assert run(["value", str(folder), "--controller", "bandit_v1"]) == 3
    assert "not those of what was seen" in capsys.readouterr().err


@pytest.mark.parametrize("lost", ["recent_roles", "tokens_used", "steps_since_switch", "can_switch"])
def test_a_quantity_that_was_left_out_is_named(tmp_path: Path, lost: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = log_of(tmp_path / "r", "random_switch:0.5", 4, full=True)
    edit(folder, "decisions.jsonl", lambda row: row["observation"].pop(lost), 3)
    assert run(["value", str(folder), "--controller", "bandit_v1"]) == 2
    error = capsys.readouterr().err
    assert f"error[E0205]: the controller decides on '{lost}', which this log does not hold" in error


def test_a_garbled_observation_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = log_of(tmp_path / "r", "random_switch:0.5", 4, full=True)
    edit(folder, "decisions.jsonl", lambda row: row["observation"].update(tokens_used="many"), 3)
    assert run(["value", str(folder), "--controller", "static:flat"]) == 3
    assert "observes tokens_used 'many'" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["bandit_v1", "phase_heuristic", "schedule:star,chain,flat"])
def test_what_the_log_does_not_hold_is_named(random_log: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["value", str(random_log), "--controller", name]) == 2
    error = capsys.readouterr().err
    unfinished, cause, _remedy = error.splitlines()
    assert "no DONE, so nothing vouches" in unfinished
    assert cause.startswith("error[E0205]: the controller decides on '") and "does not hold" in cause


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda row: row.update(propensity=0.05), "a chance of 0.05"),
        (lambda row: row.update(propensity=0.0), "propensity 0.0"),
        (lambda row: row.update(propensity=float("nan")), "propensity nan"),
        (lambda row: row.pop("action"), "'action'"),
        (lambda row: row.update(topology="ring"), "'ring'"),
        (lambda row: row.update(step=3), "lacks decisions"),
        (lambda row: row.update(task_id="other"), "lacks decisions"),
    ],
)
def test_tampered_lines_are_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = log_of(tmp_path / "r", "random_switch:0.2", 8)
    edit(folder, "decisions.jsonl", change)
    assert run(["value", str(folder), "--controller", "random_switch:0.2", "--arm", "log"]) == 3
    error = capsys.readouterr().err
    assert "error[E0303]" in error and words in error and len(error.splitlines()) == 3


def test_a_log_without_chance_needs_its_arm_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = log_of(tmp_path / "r", "static:star", 12)
    assert run(["value", str(folder), "--controller", "static:flat"]) == 2
    assert "no arms try actions by chance" in capsys.readouterr().err
    assert run(["value", str(folder), "--controller", "static:flat", "--arm", "log"]) == 2
    assert "no episode of the log could have been made" in capsys.readouterr().err
    found = value_of(folder, "static:star", capsys, "--arm", "log", "--clip", "2")
    assert found["overlap"]["clip"] == 2.0
    for wrong in (["--arm", "nope"], ["--clip", "nan"], ["--clip", "-1"]):
        assert run(["value", str(folder), "--controller", "static:star", *wrong]) == 2


def test_an_unregistered_look_is_said_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = log_of(tmp_path / "r", "random_switch:0.2", 8)
    data = json.loads((folder / "run.json").read_text())
    data["plan"] |= {"settings": {"experiment": {"registered": "ab12"}}, "seeds": [0, 1]}
    (folder / "run.json").write_text(json.dumps(data))
    sentence = (
        f"Unregistered look: {folder} has 8 of 16 episodes of a plan that is registered for one look, at its end."
    )
    assert run(["value", str(folder), "--controller", "static:flat"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0] == sentence and out.count(sentence) == 1
    found = value_of(folder, "static:flat", capsys)
    assert found["unregistered_look"] == sentence and sentence not in found["warnings"]
