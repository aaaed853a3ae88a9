"""``apex run``, ``resume``, ``train``, ``experiment``: what is asked for, what comes back, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_world import FakeSuite, Terminal

from apex_framework.cli.experiment import experiment
from apex_framework.cli.resume import resume
from apex_framework.cli.run import run
from apex_framework.cli.train import train
from apex_framework.experiment.manifest import verify_manifest
from apex_framework.scripts.run_eval_success_at_budget import evaluate

FAKE = ("--suite", "fake/dev", "--backend", "scripted", "--episodes", "4")


def test_a_run_pairs_the_controller_with_statics_and_a_single_agent(apex: Terminal) -> None:
    status, out, err = apex(run, *FAKE, "--out", "r", json=True)
    assert status == 0, out + err
    result = json.loads(out)
    assert [arm["arm"] for arm in result["arms"]] == [
        "bandit_v1",
        "static_star",
        "static_chain",
        "static_flat",
        "single",
    ]
    assert result["verdict"] in {"BETTER", "WORSE", "INCONCLUSIVE"}
    assert result["exploratory"] is True
    assert apex.world.finished == 20
    assert "20/20 episodes" in err
    assert len(Path("r/episodes.jsonl").read_text().splitlines()) == 20
    assert Path("r/DONE").exists()


def test_the_folders_configuration_plans_the_same_run_again(apex: Terminal) -> None:
    assert apex(run, *FAKE, "--dwell", "3", "--backend", "coder=scripted,*=scripted", "--out", "r")[0] == 0
    status, out, err = apex(run, "--config", "r/config.toml", "--plan", json=True)
    assert status == 0, err
    assert json.loads(out)["digest"] == json.loads(Path("r/run.json").read_text())["digest"]


def test_no_baselines_several_controllers_and_further_arms(apex: Terminal) -> None:
    arms = ("--no-baselines", "--controller", "phase_heuristic", "--controller", "schedule:star,flat,flat")
    status, out, _ = apex(run, *FAKE, *arms, "--arm", "manager", "--plan", json=True)
    assert status == 0
    assert json.loads(out)["arms"] == ["phase_heuristic", "schedule:star,flat,flat", "manager"]


def test_plan_runs_nothing_and_says_what_could_be_seen(apex: Terminal) -> None:
    status, out, _ = apex(run, *FAKE, "--seeds", "2", "--plan")
    assert status == 0
    assert "40 = 5 arms x 4 tasks x 2 seeds" in out
    assert "at most 400,000" in out
    assert "detectable" in out
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--controller", "bandit_v2"), "E0201", "did you mean 'bandit_v1'"),
        (("--topology-set", "star,chian"), "E0201", "did you mean 'chain'"),
        (("--suite", "fakes/dev"), "E0201", "did you mean 'fake'"),
        (("--suite", "fake/prod"), "E0202", "no split 'prod'"),
        (("--backend", "gtp"), "E0201", "unknown llm backend 'gtp'"),
        (("--budget", "0"), "E0202", "budget"),
        (("--budget", "100"), "E0203", "cannot pay"),
        (("--seeds", "0"), "E0202", "--seeds"),
        (("--controller", "static:tree"), "E0202", "'tree' is not in the arm's topologies"),
        (("--on-busy", "wait"), "E0202", "on_busy"),
        (("--best-static", "static_ring"), "E0201", "unknown static arm"),
    ],
)
def test_wrong_input_is_one_line_with_a_remedy(
    apex: Terminal, arguments: tuple[str, ...], code: str, words: str
) -> None:
    status, out, err = apex(run, *FAKE, *arguments)
    assert (status, out) == (2, "")
    assert f"error[{code}]" in err
    assert words in err
    assert not Path("runs").exists()


def test_an_unknown_setting_in_the_file_is_refused(apex: Terminal) -> None:
    Path("apex.toml").write_text("budgt = 5000\n")
    status, _, err = apex(run, *FAKE)
    assert status == 2
    assert "apex.toml:1" in err
    assert "'budget'" in err


def test_a_budget_that_pays_for_no_call_leaves_nothing_behind(apex: Terminal) -> None:
    import fake_episodes

    apex.world.work = fake_episodes.denied
    status, _, err = apex(run, *FAKE, "--out", "r")
    assert status == 2
    assert "error[E0203]" in err
    assert not Path("r").exists()


def test_a_budget_that_pays_for_no_call_leaves_the_users_folder(apex: Terminal) -> None:
    import fake_episodes

    apex.world.work = fake_episodes.denied
    Path("empty").mkdir()
    assert apex(run, *FAKE, "--out", "empty")[0] == 2
    assert list(Path("empty").iterdir()) == []
    Path("project/.git").mkdir(parents=True)
    status, _, err = apex(run, *FAKE, "--out", "project")
    assert (status, "error[E0302]" in err, ".git" in err) == (3, True, True)
    assert [p.name for p in Path("project").iterdir()] == [".git"]


def test_episodes_that_cannot_be_run_give_status_4_and_their_lines(apex: Terminal) -> None:
    import fake_episodes

    apex.world.work = fake_episodes.raising
    status, _, err = apex(run, *FAKE, "--out", "r")
    assert status == 4
    assert "could not be run" in err
    assert "apex resume r --retry-failed" in err
    assert Path("r/DONE").exists()


def test_failed_episodes_are_run_again_only_when_asked(apex: Terminal) -> None:
    import fake_episodes

    apex.world.work = fake_episodes.breaking
    assert apex(run, *FAKE, "--out", "r")[0] == 4
    assert apex(resume, "r")[0] == 3
    apex.world.work, apex.world.finished = fake_episodes.work, 0
    status, _, err = apex(resume, "r", "--retry-failed")
    assert status == 0, err
    assert apex.world.finished == 5
    verify_manifest(Path("r"))
    assert apex(run, *FAKE, "--out", "whole")[0] == 0
    assert _episodes("r") == _episodes("whole")
    before = Path("r/DONE").read_bytes()
    status, _, err = apex(resume, "r", "--retry-failed")
    assert (status, "no episode of it failed" in err) == (3, True)
    assert Path("r/DONE").read_bytes() == before


def test_an_interrupted_run_is_resumed_and_the_same_command_goes_on(apex: Terminal) -> None:
    assert apex(run, *FAKE, "--out", "whole")[0] == 0
    assert apex(run, *FAKE, "--out", "runs/r")[0] == 0
    for part in (Path("runs/r"), Path("again")):
        part.mkdir(exist_ok=True)
    lines = Path("runs/r/episodes.jsonl").read_bytes().splitlines(keepends=True)
    Path("runs/r/DONE").unlink()
    Path("runs/r/episodes.jsonl").write_bytes(b"".join(lines[:7]))
    apex.world.finished = 0
    assert apex(resume)[0] == 0
    assert apex.world.finished == 13
    assert _episodes("runs/r") == _episodes("whole")
    Path("runs/r/DONE").unlink()
    Path("runs/r/episodes.jsonl").write_bytes(b"".join(lines[:7]))
    assert apex(run, *FAKE, "--out", "runs/r")[0] == 0
    assert _episodes("runs/r") == _episodes("whole")


def test_a_finished_or_changed_run_is_not_gone_on_with(apex: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    assert apex(run, *FAKE, "--out", "r")[0] == 0
    status, _, err = apex(run, *FAKE, "--out", "r")
    assert (status, "error[E0302]" in err) == (3, True)
    Path("r/DONE").unlink()
    status, _, err = apex(run, *FAKE, "--budget", "5000", "--out", "r")
    assert (status, "error[E0204]" in err, "arms" in err) == (2, True, True)
    monkeypatch.setattr(FakeSuite, "digest", "d2")
    status, _, err = apex(resume, "r")
    assert (status, "suite_digest" in err) == (2, True)


def test_the_gate_prints_its_figures_and_can_be_gone_on_with(apex: Terminal) -> None:
    status, out, _ = apex(experiment, "--gate", *FAKE, "--topology-set", "star,flat", "--out", "gate")
    assert status in (0, 5)
    assert "oracle static" in out
    finished = apex.world.finished
    assert finished == 2 * 4 * 3 + 8 * 4
    assert apex(experiment, "--gate", *FAKE, "--topology-set", "star,flat", "--out", "gate")[0] == status
    assert apex.world.finished == finished


def test_training_writes_a_policy_and_its_curve(apex: Terminal) -> None:
    import fake_episodes

    apex.world.work = fake_episodes.taught
    options = ("--suite", "fake/train", "--backend", "scripted", "--episodes", "20", "--round", "8")
    for name, workers in (("a", "1"), ("b", "2")):
        status, _, err = apex(train, *options, "--workers", workers, "--out", f"{name}.npz")
        assert status == 0, err
    assert Path("a.npz").read_bytes() == Path("b.npz").read_bytes()
    assert len(Path("a.curve.jsonl").read_text().splitlines()) == 3
    about = json.loads(Path("a.json").read_text())["about"]
    assert (about["seed"], about["warm_start"], about["suite_digest"]) == (0, 4, "d1")
    apex.world.work = fake_episodes.work
    status, _, err = apex(run, *FAKE, "--policy", "a.npz", "--out", "r")
    assert status == 0, err
    digest = json.loads(Path("a.json").read_text())["digest"]
    assert json.loads(Path("r/run.json").read_text())["plan"]["policies"] == {"bandit_v1": digest}


def test_the_evaluation_script_has_the_specified_flags(apex: Terminal) -> None:
    flags = ("--split", "dev", "--episodes", "3", "--budget", "9000", "--policy", "static_chain", "--out", "e/s.jsonl")
    status, _, err = apex(evaluate, "--suite", "fake", *flags)
    assert status == 0, err
    rows = [json.loads(line) for line in Path("e/s.jsonl").read_text().splitlines()]
    assert [row["arm"] for row in rows] == ["static_chain"] * 3
    assert [p.name for p in Path("e").iterdir()] == ["s.jsonl"]
    Path("e/old.jsonl").hardlink_to("e/s.jsonl")
    assert apex(evaluate, "--suite", "fake", "--episodes", "2", *flags[4:])[0] == 0
    counts = [len(Path("e", name).read_text().splitlines()) for name in ("s.jsonl", "old.jsonl")]
    assert counts == [2, 3]
    arm = json.loads(next(Path("runs").glob("*/run.json")).read_text())["plan"]["arms"][0]
    assert (arm["controller"], arm["budget"]) == ("static:chain", 9000)


def _episodes(path: str) -> list[dict[str, object]]:
    lines = Path(path, "episodes.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if not k.endswith("_ms")} for line in lines]
